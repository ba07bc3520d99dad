"""G14: an ambiguous or unknown id is refused. G21: ids are data, never paths or queries.

Whatever text is given where a reference, a name, a label or a filter is asked for: it leads to the session that was
meant, or nowhere with an error of ours; no file appears, no other session changes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import relight
from relight.errors import Ambiguous, InvalidName, NotFound, RelightError, Unresolved, UsageError
from relight.library.facade import Relight
from tests.support.figures import Figure
from tests.support.simulation import Simulation

HOSTILE = [
    "",
    " ",
    ".",
    "..",
    "/",
    "../../etc/passwd",
    "..\\..\\x",
    "/tmp/x",
    "a/b",
    "a\x00b",
    "a\nb",
    "a\r",
    "\x1b[2J",
    "\x7f",
    "a" * 10_000,
    "é\u202e",
    "𝄞",
    "\ud800",
    "\u202eabc",
    "%",
    "%00",
    "_",
    "*",
    "?",
    "[a-z]",
    "'; DROP TABLE sessions; --",
    '" OR ""="',
    "a' OR '1'='1",
    "${HOME}",
    "$(touch x)",
    "`id`",
    "~",
    "~root",
    "-rf",
    "--help",
    "@",
    "@1",
    "a@",
    "a@@1",
    "a@-1",
    "a@1e9",
    "a@999999999999999999999",
    "a@0x1",
    "a@1 ",
    "a@'",
    "a@../x",
    "sqlite:///x",
    "NULL",
    "0",
    "CON",
    "a.",
    "{0}",
    "{0.__class__}",
    "%s%s%s",
]
ALPHABET = "abAB019._-@/\\'\"%*?;\x00\n\x1b\ud800é𝄞 "


def prepare(rl: Relight) -> dict[str, Any]:
    for name in ("a", "b", "abcd"):
        with rl.session(name, key=f"key of {name}", labels={"team": name}) as s:
            s.append({"role": "user", "content": name})
            s.checkpoint("good")
    return contents(rl)


def contents(rl: Relight) -> dict[str, Any]:
    return {
        info.id: (info.name, info.seq, info.status, rl.history.load(info.id).messages) for info in rl.sessions.list()
    }


def readings(rl: Relight) -> list[Callable[[str], Any]]:
    return [
        rl.sessions.get,
        rl.history.load,
        rl.history.checkpoints,
        rl.runs.plan,
        rl.history.verify,
        lambda ref: list(rl.history.events(ref)),
        lambda ref: list(rl.sessions.list(key=ref)),
        lambda ref: list(rl.sessions.list(search=ref)),
        lambda ref: list(rl.sessions.list(labels={ref: ref, "team": ref})),
        lambda ref: list(rl.sessions.list(agent=ref, provider=ref)),
    ]


def writings(rl: Relight) -> list[Callable[[str], Any]]:
    return [
        lambda ref: rl.sessions.remove(ref + "@nothing" if ref in ("a", "b", "abcd") else ref),
        lambda ref: rl.history.rewind(ref + "@nothing"),
        lambda ref: rl.sessions.archive(ref + "@nothing"),
        lambda ref: rl.runs.settle(ref, ref, result="x"),
        lambda ref: rl.history.label("a@1", ref + "\x00"),
        lambda ref: rl.history.fork("a", name=ref + "/"),
        lambda ref: rl.session(ref + "/"),
        lambda ref: rl.session(ref + "@nothing"),
    ]


@pytest.mark.guarantee("G21")
def test_hostile_text_is_never_more_than_an_unknown_name(
    tmp_path: Path, sample: Any, figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = Random(21)
    fuzzed = ["".join(rng.choices(ALPHABET, k=rng.randint(1, 12))) for _ in range(sample(300, proof=20_000, teeth=50))]
    tried = 0
    with relight.open(tmp_path / "relight.db") as rl:
        before = prepare(rl)
        for text in HOSTILE + fuzzed:
            for act in readings(rl) + writings(rl):
                tried += 1
                try:
                    act(text)
                except RelightError as error:
                    assert "\x1b" not in str(error) and "\x00" not in str(error)
                    assert len(str(error)) < 500
                except BaseException as error:
                    raise AssertionError(f"{text[:60]!a}: {type(error).__name__}: {error}") from error
        assert contents(rl) == before
        assert rl.history.verify().ok
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"relight.db"}
    figure("G21", f"{tried} uses of hostile texts as ids, names, labels, filters: 0 reached a path or a statement")


@pytest.mark.parametrize("name", [one for one in HOSTILE if one not in ("0", "NULL", "CON", "a.")], ids=ascii)
def test_a_name_that_could_not_be_typed_back_is_refused(world: Simulation, name: str) -> None:
    rl = world.start()
    with pytest.raises((InvalidName, NotFound)):
        rl.session(name)
    assert list(rl.sessions.list()) == []


@pytest.mark.parametrize("name", [None, 12, b"a", ["a"], object()], ids=["none", "int", "bytes", "list", "object"])
def test_a_name_that_is_no_text_is_refused(world: Simulation, name: Any) -> None:
    rl = world.start()
    with pytest.raises(UsageError):
        rl.session(name)
    for act in (rl.sessions.get, rl.history.load, rl.sessions.remove):
        with pytest.raises((UsageError, Unresolved)):
            act(name)


@pytest.mark.guarantee("G14")
def test_only_an_exact_name_a_whole_id_or_an_unambiguous_prefix_leads_somewhere(
    world: Simulation, figure: Figure, sample: Any
) -> None:
    rl = world.start()
    sessions = {}
    for number in range(sample(25, proof=400)):
        with rl.session(f"s{number}") as s:
            s.append({"role": "user", "content": "x"})
        sessions[s.id] = s.name
    # Names that look like the beginning of somebody else's id.
    for stolen in list(sessions)[:5]:
        with rl.session(stolen[:6]) as s:
            s.append({"role": "user", "content": "thief"})
        sessions[s.id] = s.name
    asked = 0
    for session, name in sessions.items():
        assert rl.sessions.get(session).id == session
        assert rl.sessions.get(name or "").id == session
        for length in range(1, 32):
            asked += 1
            prefix = session[:length]
            fitting = [one for one in sessions if one.startswith(prefix)]
            named = [one for one, called in sessions.items() if called == prefix]
            if named:
                assert rl.sessions.get(prefix).id == named[0], "an exact name comes before a prefix"
            elif length < 4:
                with pytest.raises(NotFound):
                    rl.sessions.get(prefix)
            elif len(fitting) == 1:
                assert rl.sessions.get(prefix).id == session
            else:
                with pytest.raises(Ambiguous):
                    rl.sessions.get(prefix)
        with pytest.raises(NotFound):
            rl.sessions.get(session + "0")
        with pytest.raises(NotFound):
            rl.sessions.get(session[:8].upper() + "x")
    figure("G14", f"{asked} prefixes of {len(sessions)} ids, some of them names of others: 0 led to another session")
