"""The demo's numbers are those of its own run, and what it claims can turn out false."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.demo import shop
from tests.unit.demo.playing import RELIGHT, SOURCE, numbers, play, players, python


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The numbers of one demo, and the directory it kept."""
    document = numbers(play("--fast", "--json", "--keep", temporary=tmp_path_factory.mktemp("demo")))
    return document, Path(document["kept_in"])


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("run", ["demo", "plain"])
def test_model_calls_and_mails_are_those_the_world_wrote_down(kept: tuple[dict[str, Any], Path], run: str) -> None:
    document, root = kept
    told = document["relight" if run == "demo" else "plain"]
    asked = Counter(one["turn"] for one in read_lines(root / "world" / "requests.jsonl") if one["run"] == run)
    assert told["model_calls"] == asked.total()
    assert told["model_calls_repeated"] == sum(number - 1 for number in asked.values())
    assert told["mails"] == len(read_lines(root / "world" / f"{run}.outbox"))
    assert told["edits"] == (root / run / "cart.py").read_text(encoding="utf-8").count("raise ValueError")


def test_the_plain_loop_repeats_and_relight_does_not(kept: tuple[dict[str, Any], Path]) -> None:
    document, _ = kept
    plain, ours = document["plain"], document["relight"]
    assert (plain["kills"], ours["kills"]) == (1, 1)
    assert (plain["mails"], plain["edits"], plain["model_calls_repeated"]) == (2, 2, 4)
    assert (ours["mails"], ours["edits"], ours["model_calls_repeated"], ours["steps_lost"]) == (1, 1, 0, 0)
    assert ours["in_doubt"] == ["send_mail"]


def test_the_steps_are_those_of_the_journal(kept: tuple[dict[str, Any], Path]) -> None:
    document, root = kept
    with relight.open(root / "demo.db") as rl:
        info = rl.get("demo")
        assert rl.verify().ok
        (mail,) = [call for call in rl.load("demo").calls if call.name == "send_mail"]
    steps = document["relight"]["steps"]
    assert (info.status, info.attempt) == ("completed", 2)
    assert info.seq == steps + 4, "a rewind and an undo of files: a beginning and an end each"
    assert len(read_lines(root / "world" / "demo.saves")) == document["relight"]["saves"] == steps
    assert document["at_kill"] == {"mails": 1, "steps": mail.intent_seq}


def test_the_copy_differs_in_the_bit_that_was_named(kept: tuple[dict[str, Any], Path]) -> None:
    document, root = kept
    damage = document["damage"]
    with relight.open(root / "damaged.db") as rl:
        (problem,) = rl.verify("demo").problems
        with pytest.raises(relight.errors.Corrupt) as refused:
            rl.load("demo")
    assert (problem.seq, problem.offered) == (damage["flipped_seq"], damage["offered"])
    assert refused.value.seq == damage["flipped_seq"]
    told = python(RELIGHT, "verify", "demo", "--json", temporary=root, RELIGHT_STORE=str(root / "damaged.db"))
    assert told.returncode == 5
    assert json.loads(told.stdout)["problems"][0]["seq"] == damage["flipped_seq"]
    whole = bytearray((root / "damaged.db").read_bytes())
    whole[damage["byte"]] ^= 1 << damage["bit"]
    (root / "mended.db").write_bytes(whole)
    shutil.copytree(root / "damaged.db.blobs", root / "mended.db.blobs")
    with relight.open(root / "mended.db") as rl:
        assert rl.verify("demo").ok


def test_the_store_is_a_database_that_others_can_read(kept: tuple[dict[str, Any], Path]) -> None:
    document, root = kept
    steps, newest = document["relight"]["steps"], document["damage"]["flipped_seq"]
    with sqlite3.connect(root / "demo.db") as database:
        assert database.execute("SELECT count(*) FROM steps").fetchone()[0] == newest
        named = database.execute("SELECT count(DISTINCT id) FROM snapshots WHERE seq <= ?", (steps,)).fetchone()[0]
    database.close()
    assert document["files"]["snapshots"] == named == 2, "before the edit and after it"


def test_the_files_go_back_and_forth_again_from_the_command_line(tmp_path: Path) -> None:
    document = numbers(play("--fast", "--json", "--keep", temporary=tmp_path))
    root, told = Path(document["kept_in"]), document["files"]
    assert told["differ_after_rewind"] == told["differ_after_undo"] == []
    assert told["damaged"] == 0
    assert told["tests_failed_there"] == 3 and told["tests_passed_again"] == 6
    assert told["back_ms"] > 0 and told["forth_ms"] > 0
    fixed = shop.files(root / "demo")
    assert set(fixed) == {"cart.py", "test_cart.py", "notes.md"}

    def relight_(*arguments: str) -> None:
        done = python(RELIGHT, *arguments, temporary=tmp_path, RELIGHT_STORE=str(root / "demo.db"))
        assert done.returncode == 0, done.stdout + done.stderr

    relight_("rewind", f"demo@{told['checkpoint']}", "--files")
    assert shop.files(root / "demo") == fixed | {"cart.py": shop.CART.encode()}
    relight_("undo", "demo")
    assert shop.files(root / "demo") == fixed


def test_two_demos_at_once_do_not_disturb_one_another(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(play, "--fast", "--json", temporary=tmp_path) for _ in range(2)]
    one, two = (numbers(running.result()) for running in both)
    assert one["relight"]["steps"] == two["relight"]["steps"]
    assert one["plain"]["mails"] == two["plain"]["mails"] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("home", [None, "/proc"], ids=["unset", "read-only"])
def test_it_needs_no_home_and_no_writable_directory(tmp_path: Path, home: str | None) -> None:
    temporary, here = tmp_path / "temporary", tmp_path / "here"
    temporary.mkdir()
    here.mkdir(mode=0o500)
    done = play("--fast", "--json", temporary=temporary, cwd=here, HOME=home, XDG_DATA_HOME=None)
    assert numbers(done)["relight"]["mails"] == 1
    assert list(here.iterdir()) == list(temporary.iterdir()) == []


def test_settings_for_other_sessions_do_not_reach_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    settings: dict[str, Any] = {
        "RELIGHT_STORE": str(elsewhere),
        "RELIGHT_SESSION": "another",
        "RELIGHT_FAULT": "tool.intended:1:kill",
    }
    done = play("--fast", "--json", temporary=temporary, **settings)
    assert numbers(done)["relight"]["mails"] == 1
    assert not elsewhere.exists()


def test_without_a_temporary_directory_it_says_so(tmp_path: Path) -> None:
    program = (
        "import tempfile; from relight.demo.stage import Stage; tempfile.tempdir = '/nonexistent'\n"
        "try: Stage(keep=False)\n"
        "except Exception as error: print(type(error).__name__, error.hints)"
    )
    done = python(program, temporary=tmp_path)
    assert done.stdout.startswith("RelightError ('TMPDIR=")


LIES = {
    "mails sent with relight": ("demo/tools.py", '@relight.tool(effect="once")', '@relight.tool(effect="pure")'),
    "steps that verify names after the flip": ("demo/damage.py", "    _flip(copy, offset)\n", ""),
    "files that differ after the rewind": (
        "journal/files/restore_plan.py",
        "            self.writes[path] = Action(path=path, entry=wanted, found=found)\n",
        "            pass\n",
    ),
    "model calls repeated with relight": (
        "demo/agent.py",
        "    answer =",
        '    ask("model", run_name(), messages=messages)\n    answer =',
    ),
}


@pytest.mark.parametrize("claim", LIES)
def test_a_claim_that_is_false_is_named_and_fails_the_demo(tmp_path: Path, claim: str) -> None:
    """The demo of a relight, or of a world, that is not as it says."""
    where, text, instead = LIES[claim]
    source, temporary = tmp_path / "src", tmp_path / "temporary"
    temporary.mkdir()
    shutil.copytree(SOURCE / "relight", source / "relight", ignore=shutil.ignore_patterns("__pycache__"))
    patched = source / "relight" / where
    before = patched.read_text(encoding="utf-8")
    assert before.count(text) == 1
    patched.write_text(before.replace(text, instead), encoding="utf-8")
    done = play("--fast", temporary=temporary, PYTHONPATH=str(source))
    assert done.returncode == 1, done.stdout
    assert f"error: a claim of the demo did not hold: {claim}: expected" in " ".join(done.stderr.split())
    assert "✗" in done.stdout.partition("\n4  ")[2]
    assert list(temporary.iterdir()) == []
    assert players(tmp_path) == []
