"""A bundle whose sums fit and whose words are nonsense: refused by name, or read without a foreign error."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

import relight
from relight.errors import BundleRefused, NotResumable, RelightError
from relight.journal.bundle import BundleInvalid, Frame, Manifest, StepRow, part_row, read_part, read_step
from relight.journal.chain import step_digest
from relight.journal.codec import decode_changes, encoded
from relight.values.checkpoint import LATEST_US, at
from relight.values.session import GENESIS
from tests.support.figures import Figure
from tests.unit.bundles.bundles import read, reply, user, with_part, write

PLAIN = bytes((1, 0))
ODD: list[Any] = [
    None, 7, -1, 1 << 70, 0.5, True, "", "x", "\ud800", [], [7], [None], ["a"], ["a", 7, None], {}, {"a": 7},
    {"": None}, {"role": 7},
    {"role": "user", "content": 7}, {"role": "assistant", "tool_calls": 7}, {"type": "tool_use"},
    {"role": "assistant", "tool_calls": [7, {"id": 7, "function": 7}]},
    {"role": "assistant", "content": [7, {"type": 7}]}, [{"id": "x"}], [[]], b"bytes",
]  # fmt: skip


def ask(call: str) -> dict[str, Any]:
    function = {"name": "pay", "arguments": '{"amount": 3}'}
    return {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]}


@relight.tool
def pay(amount: int) -> str:
    return f"paid {amount}"


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[Frame]:
    """A session that has one of everything."""
    path = tmp_path_factory.mktemp("hostile")
    with relight.open(path / "a.db") as rl:
        with rl.session("x", labels={"a": "b"}, metadata={"m": 1}) as s:
            s.append(user("hello"))
            s.append(ask("c1"), usage={"input_tokens": 3})
            s.run_tool(s.pending_calls()[0], [pay])
            s.once("mail", lambda: "sent")
            s.state["k"] = {"v": 1}
            s.partial("half")
            s.append(reply("ok"))
            s.checkpoint("good")
            s.replace([user("short")])
            s.append(ask("c2"))
        rl.history.rewind("x@good")
        rl.history.undo("x")
        rl.history.export("x", path / "raw")
    return read(path / "raw")


def forged(frames: list[Frame], forge: Callable[[dict[str, Any]], dict[str, Any]], at: int, **head: Any) -> list[Frame]:
    """The same with one step's words changed, and every digest after it made to fit."""
    manifest = next(one for one in frames if isinstance(one, Manifest))
    who, where = read_part(manifest.parts[-1])
    digest, number = GENESIS, 0
    made: list[Frame] = []
    for one in frames:
        if isinstance(one, StepRow):
            step = one
            if number == at:
                words = forge(msgspec.to_builtins(decode_changes(one.body)))
                step = msgspec.structs.replace(one, body=PLAIN + encoded(words))
            number += 1
            digest = step_digest(digest, read_step(who.id, step))
            made.append(msgspec.structs.replace(step, digest=digest))
        elif not isinstance(one, Manifest):
            made.append(one)
    where = msgspec.structs.replace(where, digest=digest, **head)
    return [msgspec.structs.replace(manifest, parts=[part_row(who, where)]), *made]


def readers(rl: relight.Relight, session: str, out: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that looks at a session, and what ends it."""
    yield "list", lambda: list(rl.sessions.list())
    yield "get", lambda: rl.sessions.get(session)
    yield "load", lambda: rl.history.load(session)
    yield "tail", lambda: list(rl.history.events(session))
    yield "checkpoints", lambda: list(rl.history.checkpoints(session))
    yield "plan", lambda: rl.runs.plan(session)
    yield "verify", rl.history.verify
    yield "export", lambda: rl.history.export(session, out / "again")
    yield "json", lambda: list(rl.history.documents(session))
    yield "undo", lambda: rl.history.undo(session)
    yield "rewind", lambda: rl.history.rewind(f"{session}@2")
    yield "fork", lambda: rl.session(rl.history.fork(session).id).__enter__().close()
    yield "archive", lambda: rl.sessions.archive(session)
    yield "drop", lambda: rl.sessions.remove(session, with_forks=True)


def test_words_of_a_forged_bundle_raise_nothing_foreign(
    frames: list[Frame], tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    steps = sum(isinstance(one, StepRow) for one in frames)
    chance, taken, foreign = random.Random(7), Counter[str](), list[str]()
    for number in range(sample(40, proof=4000, teeth=80)):
        at = chance.randrange(steps)
        change = mutation(chance)
        try:
            bundle = write(tmp_path / f"{number}.relight", forged(frames, change, at))
        except BundleInvalid:
            taken["refused"] += 1
            continue
        out = tmp_path / str(number)
        out.mkdir()
        with relight.open("memory:") as rl:
            with rl.session("mine") as s:
                s.append(user("mine"))
            try:
                session = rl.history.import_(bundle).session
            except RelightError:
                taken["refused"] += 1
                continue
            taken["taken in"] += 1
            for verb, look in readers(rl, session, out):
                try:
                    look()
                except RelightError:
                    continue
                except Exception as error:  # the finding itself: which verb, what was forged
                    foreign.append(f"{number} step {at} {verb}: {type(error).__name__}: {error}")
    assert not foreign, "\n".join(foreign[:20])
    assert taken["taken in"] and taken["refused"]
    figure("G28", f"{taken.total()} forged sessions, {taken['taken in']} taken in, 0 foreign errors")


@pytest.mark.parametrize("ends", [False, True], ids=["pending", "completed"])
@pytest.mark.parametrize("ref", ["job", "job@2", "id", "prefix"])
def test_no_program_opens_a_session_that_nobody_vouched_for(tmp_path: Path, ref: str, ends: bool) -> None:
    """Its pending call would run with somebody else's arguments, its result would be taken for the program's own."""
    paid: list[int] = []

    @relight.tool(name="pay", effect="idempotent")
    def pay_here(amount: int) -> str:
        paid.append(amount)
        return "paid"

    with relight.open(tmp_path / "a.db") as rl:
        with rl.session("job") as s:
            s.append(user("go"))
            s.append(ask("c1"))
            if ends:
                s.complete("forged")
        rl.history.export("job", tmp_path / "b")
    with relight.open(tmp_path / "b.db") as rl:
        made = rl.history.import_(tmp_path / "b").session
        before = rl.sessions.get(made)
        named = {"id": made, "prefix": made[:8]}.get(ref, ref)
        with pytest.raises(NotResumable, match="signature is not trusted here"), rl.session(named) as s:
            s.run(lambda _: reply("done"), tools=[pay_here])
        assert rl.sessions.get(made) == before and rl.sessions.get(made).attempt == before.attempt
        with rl.session("job", resume=False) as s:
            assert s.id != made and s.is_new
        copy = rl.history.fork(made).id
        with rl.session(copy) as s:
            assert "imported" not in rl.sessions.get(copy).labels and s.messages
    assert paid == []


def test_a_signature_does_not_make_trusted_what_was_not(tmp_path: Path) -> None:
    key = b"0123456789abcdef0123456789abcdef"
    with relight.open(tmp_path / "a.db") as rl:
        with rl.session("job") as s:
            s.append(user("go"))
        rl.history.export("job", tmp_path / "a")
    with relight.open(tmp_path / "b.db") as rl:
        assert not rl.history.import_(tmp_path / "a").trusted
        rl.history.export("job", tmp_path / "b", key=key)
    with relight.open(tmp_path / "c.db") as rl:
        assert not rl.history.import_(tmp_path / "b", key=key).trusted
        with pytest.raises(NotResumable):
            rl.session("job")


@pytest.mark.parametrize("us", [253402300799999999, LATEST_US])
def test_a_time_at_the_end_of_the_calendar_is_refused(frames: list[Frame], tmp_path: Path, us: int) -> None:
    bundle = write(tmp_path / "late", with_part(frames, identity={"created_us": us}))
    with relight.open("memory:") as rl, pytest.raises(BundleRefused, match="out of bounds"):
        rl.history.import_(bundle)


def test_a_stored_time_outside_the_calendar_is_still_shown() -> None:
    for us in (-1, LATEST_US, 253402300799999999, 1 << 62):
        assert at(us).astimezone(ZoneInfo("Asia/Tokyo")) + timedelta(days=400)


def mutation(chance: random.Random) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(words: dict[str, Any]) -> dict[str, Any]:
        locations = list(_places(words))
        path = chance.choice(locations)
        if chance.random() < 0.25 or not path:
            name = chance.choice([*FIELDS, *words])
            return {**words, name: chance.choice(ODD)}
        target: Any = words
        for part in path[:-1]:
            target = target[part]
        if chance.random() < 0.2 and isinstance(target, dict):
            del target[path[-1]]
        else:
            target[path[-1]] = chance.choice(ODD)
        return words

    return change


FIELDS = [
    "messages", "state", "unset", "intents", "outcomes", "usage", "status", "attempt", "snapshot", "partial", "tools",
    "answer", "native", "note", "record", "carried",
]  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))
