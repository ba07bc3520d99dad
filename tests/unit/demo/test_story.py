"""The demo's numbers are those of its own run, and what it claims can turn out false."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

import relight
from relight.demo import shop
from tests.support.figures import Figure
from tests.unit.demo.playing import RELIGHT, SECONDS, SOURCE, environment, numbers, play, players, python


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The numbers of one demo with settings for other sessions, and the directory it kept."""
    temporary = tmp_path_factory.mktemp("demo")
    here = temporary / "here"
    here.mkdir(mode=0o500)
    settings: dict[str, Any] = {
        "RELIGHT_STORE": str(temporary / "elsewhere.db"),
        "RELIGHT_SESSION": "another",
        "RELIGHT_FAULT": "tool.intended:1:kill",
        "HOME": None,
        "XDG_DATA_HOME": None,
    }
    document = numbers(play("--fast", "--json", "--keep", temporary=temporary, cwd=here, **settings))
    assert not (temporary / "elsewhere.db").exists() and list(here.iterdir()) == []
    return document, Path(document["kept_in"])


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("run", ["demo", "plain"])
def test_model_calls_and_mails_are_those_the_world_wrote_down(kept: tuple[dict[str, Any], Path], run: str) -> None:
    document, root = kept
    reported = document["relight" if run == "demo" else "plain"]
    lines = [one for one in read_lines(root / "world.jsonl") if one["run"] == run]
    asked = Counter(one["turn"] for one in lines if one["op"] == "model")
    assert reported["model_calls"] == asked.total()
    assert reported["model_calls_repeated"] == sum(number - 1 for number in asked.values())
    assert reported["mails"] == sum(one["op"] == "mail" for one in lines)
    assert reported["edits"] == (root / run / "cart.py").read_text(encoding="utf-8").count("raise ValueError")


def test_the_plain_loop_repeats_and_relight_does_not(kept: tuple[dict[str, Any], Path]) -> None:
    document, _ = kept
    plain, ours = document["plain"], document["relight"]
    assert (plain["mails"], plain["edits"], plain["model_calls_repeated"]) == (2, 2, 4)
    assert (ours["mails"], ours["edits"], ours["model_calls_repeated"], ours["steps_lost"]) == (1, 1, 0, 0)
    assert ours["in_doubt"] == ["send_mail"]


def test_the_steps_are_those_of_the_journal(kept: tuple[dict[str, Any], Path]) -> None:
    document, root = kept
    with relight.open(root / "demo.db") as rl:
        info = rl.sessions.get("demo")
        assert rl.history.verify().ok
        (mail,) = [call for call in rl.history.load("demo").calls if call.name == "send_mail"]
    steps = document["relight"]["steps"]
    assert (info.status, info.attempt) == ("completed", 2)
    assert document["damage"]["flipped_seq"] == steps + 4, "a rewind and an undo of files: a beginning and an end each"
    assert document["relight"]["saves"] == steps
    assert document["at_kill"] == {"mails": 1, "steps": mail.intent_seq}


def test_the_copy_differs_in_the_bit_that_was_named(kept: tuple[dict[str, Any], Path]) -> None:
    document, root = kept
    damage = document["damage"]
    with relight.open(root / "damaged.db") as rl:
        (problem,) = rl.history.verify("demo").problems
    assert (problem.seq, problem.offered) == (damage["flipped_seq"], damage["offered"])
    whole = bytearray((root / "damaged.db").read_bytes())
    whole[damage["byte"]] ^= 1 << damage["bit"]
    (root / "mended.db").write_bytes(whole)
    shutil.copytree(root / "damaged.db.blobs", root / "mended.db.blobs")
    with relight.open(root / "mended.db") as rl:
        assert rl.history.verify("demo").ok


def test_the_files_go_back_and_forth_again_from_the_command_line(kept: tuple[dict[str, Any], Path]) -> None:
    document, root = kept
    fixed = shop.files(root / "demo")
    assert set(fixed) == {"cart.py", "test_cart.py", "notes.md"}

    def relight_(*arguments: str) -> None:
        done = python(RELIGHT, *arguments, temporary=root, RELIGHT_STORE=str(root / "demo.db"))
        assert done.returncode == 0, done.stdout + done.stderr

    relight_("rewind", f"demo@{document['files']['checkpoint']}", "--files")
    assert shop.files(root / "demo") == fixed | {"cart.py": shop.CART.encode()}
    relight_("undo", "demo")
    assert shop.files(root / "demo") == fixed


def test_without_a_temporary_directory_it_says_so(tmp_path: Path) -> None:
    program = (  # below a file there is never a directory
        "import tempfile; from relight.demo.stage import Stage; tempfile.tempdir = tempfile.__file__ + '/no'\n"
        "try: Stage(keep=False)\n"
        "except Exception as error: print(type(error).__name__, error.hints)"
    )
    done = python(program, temporary=tmp_path)
    assert done.stdout.startswith("RelightError ('TMPDIR=")


def test_a_claim_that_is_false_is_named_and_fails_the_demo(tmp_path: Path) -> None:
    """The demo of an agent whose mail may be sent again."""
    source, temporary = tmp_path / "src", tmp_path / "temporary"
    temporary.mkdir()
    shutil.copytree(SOURCE / "relight", source / "relight")
    patched = source / "relight" / "demo" / "agent.py"
    before = patched.read_text(encoding="utf-8")
    assert before.count('effect="once"') == 1
    patched.write_text(before.replace('effect="once"', 'effect="pure"'), encoding="utf-8")
    done = play("--fast", temporary=temporary, PYTHONPATH=str(source))
    assert done.returncode == 1, done.stdout
    assert "error: a claim of the demo did not hold: mails sent with relight: expected 1, counted 2" in " ".join(
        done.stderr.split()
    )
    assert "✗" in done.stdout.partition("\n4  ")[2]
    assert list(temporary.iterdir()) == []
    assert players(tmp_path) == []


@pytest.mark.crash
def test_kills_at_random_moments_change_nothing(tmp_path: Path, sample: Callable[..., int], figure: Figure) -> None:
    kills = 0
    for seed in range(sample(1, proof=200, teeth=2)):
        storm = numbers(play("--storm", "--fast", "--json", "--seed", str(seed), temporary=tmp_path))
        assert storm["seed"] == seed
        assert storm["storm"]["status"] == "completed"
        assert storm["storm"]["mails"] == storm["alone"]["mails"] == 1
        assert storm["storm"]["model_calls_repeated"] <= storm["kills"]
        assert storm["steps_lost"] == storm["problems"] == 0
        assert list(tmp_path.iterdir()) == []
        kills += storm["kills"]
    assert players(tmp_path) == []
    assert kills > 0
    figure("G2", f"{kills} kills of the demo's agent, journal and every snapshot whole after each")


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: the caller does."""

    def http_error_303(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        return fp


def test_the_page_of_the_run_shows_its_kill_resume_files_and_cost(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", RELIGHT, "demo", "--fast", "--web"],
        env=environment(tmp_path, DISPLAY=None, SSH_CONNECTION=None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert child.stdout is not None
        reported = ""
        for line in child.stdout:
            reported += line
            if "the page of this run stays" in line:
                break
        # The first was printed before the run, and is good for a minute; the last is for who looks now.
        links = re.findall(r"http://127\.0\.0\.1:\d+/login\?code=\S+", reported)
        assert len(set(links)) == 2, reported
        browser = urllib.request.build_opener(_Stay)
        host: dict[str, str] = {}

        def page(address: str) -> str:
            """As a browser has it: the link leads to the server's own name, which is this machine."""
            for _ in range(3):
                asked = urlsplit(address)
                here = asked._replace(netloc=f"127.0.0.1:{asked.port}").geturl()
                request = urllib.request.Request(here, headers={"Accept": "text/html", "Host": asked.netloc, **host})
                with browser.open(request, timeout=SECONDS) as answer:
                    if answer.status != 303:
                        return str(answer.read().decode())
                    if answer.headers["Set-Cookie"]:
                        host["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
                    address = urljoin(address, answer.headers["Location"])
                    origins.append(address.partition("/login")[0].rstrip("/"))
            raise AssertionError("led around in circles")

        origins: list[str] = []
        first = page(links[-1])
        session = re.search(r'id="r-([0-9a-f]{32})"[^>]*data-ref="demo"', first)
        assert session is not None, "the list does not hold the run"
        origin = origins[0]
        shown = page(f"{origin}/sessions/{session[1]}")
        assert "attempt 2, resumed from" in shown and "its process died" in shown
        assert "send_mail" in shown and re.search(r"<b>\$0\.\d\d</b>", shown)
        assert "cart.py" in page(f"{origin}/sessions/{session[1]}?tab=files")
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=SECONDS)
    assert child.returncode == 130
    assert players(tmp_path) == [] and list(tmp_path.glob("relight-demo-*")) == []
