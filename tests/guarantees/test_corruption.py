"""G5: damage is detected, named and survived. G28: the journal cannot be rewritten unnoticed.

A closed store is damaged on purpose: bytes flipped, zeroed or cut off anywhere, rows removed, exchanged or signed
anew. Whoever opens it then gets the history that was written, or an error of ours that names the step and offers a
checkpoint that is whole; and from there the session goes on. A driver's exception, another history, a shorter one, or
"no such session" is a failure.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest

import relight
from relight.errors import Corrupt, NotFound, RelightError
from relight.journal.chain import seal, step_digest, unseal_head
from relight.journal.codec import encode_changes
from relight.library.facade import Relight
from relight.values.step import Changes
from tests.support.figures import Figure

STEPS = 30


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


class Original:
    """A store in which session "a" has a known history at every checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "original.db"
        with relight.open(self.path) as rl:
            with rl.session("a", task="a task", labels={"k": "v"}) as s:
                s.append(user("go"))
                for number in range(STEPS):
                    s.state["n"] = number
                    s.append({"role": "assistant", "content": f"{number} " * (1 + number * 7 % 90)})
                s.checkpoint("end")
            rl.history.fork("a@9", name="b", prompt="other")
            self.id = rl.sessions.get("a").id
            self.past = {one.seq: self.reported(rl, f"a@{one.seq}") for one in rl.history.checkpoints("a")}
            self.now = self.reported(rl, "a")
            self.seq = rl.sessions.get("a").seq
        self.bytes = self.path.read_bytes()

    @staticmethod
    def reported(rl: Relight, ref: str) -> Any:
        loaded = rl.history.load(ref)
        return loaded.messages, loaded.state, loaded.calls


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("original"))


def put(path: Path, content: bytes) -> Path:
    """A store of these bytes, closed cleanly: without a log and without a witness."""
    for leftover in path.parent.glob(path.name + "*"):
        leftover.unlink()
    path.write_bytes(content)
    return path


def judge(original: Original, path: Path) -> str:
    """What happened to whoever opened the damaged store, in a word; an AssertionError where it must not have."""
    try:
        rl = relight.open(path)
    except RelightError as error:
        assert not isinstance(error, NotFound)
        return "refused whole"
    with rl:
        try:
            reported = original.reported(rl, "a")
        except Corrupt as error:
            return survive(original, rl, error)
        except NotFound as error:
            raise AssertionError(f"silently gone: {error}") from None
        except RelightError:
            return "refused"
        assert reported == original.now, "silently different"
        return "same"


def survive(original: Original, rl: Relight, error: Corrupt) -> str:
    """Named, offered, and gone on from there."""
    report = rl.history.verify()
    assert not report.ok, "load finds damage that verify does not"
    assert not rl.runs.plan("a").ok if _readable(rl) else True
    if error.offered is None:
        return "named, nothing offered" if error.seq is not None else "named the store"
    seq = int(error.offered.partition("@")[2])
    assert original.reported(rl, error.offered) == original.past[seq], "what is offered is not what was written"
    try:
        rl.runs.prepare("a", from_last_good=True)
        with rl.session("a") as s:
            assert (s.messages, dict(s.state)) == original.past[seq][:2]
            s.append(user("goes on"))
        assert rl.history.load("a").messages == [*original.past[seq][0], user("goes on")]
    except Corrupt:
        return "named and offered, not writable"
    return "named, offered, went on"


def _readable(rl: Relight) -> bool:
    try:
        rl.sessions.get("a")
    except RelightError:
        return False
    return True


def tell(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())


def test_a_flipped_id_in_the_sessions_own_row_is_named_and_mended(original: Original, memory_path: Path) -> None:
    """Found by id it looks whole, since the index has the id; found by name it does not."""
    with relight.open(put(memory_path / "whole.db", original.bytes)) as rl:
        id_ = rl.sessions.get("a").id.encode()
    locations, at = [], original.bytes.find(id_)
    while at >= 0:
        locations.append(at)
        at = original.bytes.find(id_, at + 1)
    counts = Counter[str]()
    for at in locations:
        damaged = bytearray(original.bytes)
        damaged[at + 9] ^= 1
        counts[judge(original, put(memory_path / "flipped.db", bytes(damaged)))] += 1
    assert counts["named, offered, went on"], tell(counts)


@pytest.mark.guarantee("G5")
def test_any_flipped_byte_is_harmless_or_named(
    original: Original, memory_path: Path, sample: Any, figure: Figure
) -> None:
    rng, counts = Random(5), Counter[str]()
    flips = sample(250, proof=100_000, teeth=150)
    for _ in range(flips):
        damaged = bytearray(original.bytes)
        at = rng.randrange(len(damaged))
        damaged[at] ^= 1 << rng.randrange(8)
        try:
            counts[judge(original, put(memory_path / "flipped.db", bytes(damaged)))] += 1
        except BaseException as error:
            raise AssertionError(f"byte {at} of {len(damaged)}: {type(error).__name__}: {error}") from error
    figure("G5", f"{flips} flipped bits, 0 silently different, 0 foreign errors ({tell(counts)})")


@pytest.mark.guarantee("G5")
def test_every_byte_of_the_newest_step_is_harmless_or_named_and_survived(
    original: Original, memory_path: Path, sample: Any, figure: Figure
) -> None:
    digest = next(step for step in _steps(original.path, original.id) if step.seq == original.seq).digest
    end = original.bytes.index(digest) + len(digest)
    begin = end - 160
    counts = Counter[str]()
    locations = range(begin, end, sample(4, proof=1, teeth=4))
    for at in locations:
        damaged = bytearray(original.bytes)
        damaged[at] ^= 0x41
        try:
            counts[judge(original, put(memory_path / "newest.db", bytes(damaged)))] += 1
        except BaseException as error:
            raise AssertionError(f"byte {at - begin} of the row: {type(error).__name__}: {error}") from error
    assert counts["named, offered, went on"] > len(locations) // 4
    figure("G5", f"{len(locations)} bytes of the newest step changed, 0 silently different ({tell(counts)})")


@pytest.mark.guarantee("G5")
def test_zeroed_stretches_and_cut_off_ends_are_harmless_or_named(
    original: Original, memory_path: Path, sample: Any, figure: Figure
) -> None:
    rng, counts = Random(6), Counter[str]()
    blows = sample(60, proof=20_000, teeth=40)
    for number in range(blows):
        damaged = bytearray(original.bytes)
        if number % 2:
            at, length = rng.randrange(len(damaged)), rng.choice([1, 16, 512, 4096, 16384])
            damaged[at : at + length] = bytes(len(damaged[at : at + length]))
            what = f"{length} bytes zeroed at {at}"
        else:
            at = rng.choice([rng.randrange(len(damaged)), rng.randrange(len(damaged) // 4096) * 4096])
            del damaged[at:]
            what = f"cut off at {at}"
        try:
            if not damaged:
                continue
            counts[judge(original, put(memory_path / "cut.db", bytes(damaged)))] += 1
        except BaseException as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    figure("G5", f"{blows} stretches zeroed or ends cut off, 0 silently different ({tell(counts)})")


@pytest.mark.guarantee("G5")
def test_a_flipped_byte_in_the_log_of_a_killed_writer_is_harmless_or_named(
    tmp_path: Path, sample: Any, figure: Figure
) -> None:
    """SQLite reads a log up to the first frame that fails, and forgets the rest without a word. We must not."""
    rng, counts = Random(8), Counter[str]()
    killed = tmp_path / "killed"
    killed.mkdir()
    with relight.open(tmp_path / "live.db") as rl:
        s = rl.session("a")
        for number in range(12):
            s.append(user(f"{number} " * 40))
        for leftover in tmp_path.glob("live.db*"):
            shutil.copyfile(leftover, killed / leftover.name)
        wanted = s.messages
        s.close()
    log = (killed / "live.db-wal").read_bytes()
    flips = sample(80, proof=20_000, teeth=40)
    for _ in range(flips):
        damaged, at = bytearray(log), rng.randrange(len(log))
        damaged[at] ^= 1 << rng.randrange(8)
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(killed, again)
        (again / "live.db-shm").unlink(missing_ok=True)
        (again / "live.db-wal").write_bytes(damaged)
        try:
            counts[_judge_log(again / "live.db", wanted)] += 1
        except BaseException as error:
            raise AssertionError(f"byte {at} of {len(log)}: {type(error).__name__}: {error}") from error
    figure("G5", f"{flips} flipped bits in a killed writer's log, 0 silently shorter ({tell(counts)})")


def _judge_log(path: Path, wanted: list[dict[str, Any]]) -> str:
    try:
        with relight.open(path) as rl:
            assert rl.history.load("a").messages == wanted, "silently different"
            return "same"
    except NotFound:
        raise AssertionError("silently gone") from None
    except RelightError:
        return "named"


# ---------------------------------------------------------------- rows removed, exchanged, signed anew


def _steps(path: Path, session: str) -> list[Any]:
    with relight.open(path) as rl:
        return list(rl.store.steps(session))


def sid_of(connection: apsw.Connection, original: Original) -> int:
    return int(connection.execute("SELECT sid FROM sessions WHERE id = ?", (original.id,)).get)


def row(connection: apsw.Connection, original: Original, seq: int) -> int:
    return sid_of(connection, original) << 32 | seq


def remove(*seqs: int) -> Callable[[apsw.Connection, Original], None]:
    def blow(connection: apsw.Connection, original: Original) -> None:
        for seq in seqs:
            connection.execute("DELETE FROM steps WHERE id = ?", (row(connection, original, seq),))

    return blow


def exchange_bodies(first: int, second: int) -> Callable[[apsw.Connection, Original], None]:
    def blow(connection: apsw.Connection, original: Original) -> None:
        one, two = (connection.execute("SELECT body FROM steps WHERE id = ?", (row(connection, original, seq),)).get
                    for seq in (first, second))  # fmt: skip
        for seq, body in ((first, two), (second, one)):
            connection.execute("UPDATE steps SET body = ? WHERE id = ?", (body, row(connection, original, seq)))

    return blow


def exchange_rows(first: int, second: int) -> Callable[[apsw.Connection, Original], None]:
    def blow(connection: apsw.Connection, original: Original) -> None:
        for before, after in ((first, 0), (second, first), (0, second)):
            ids = row(connection, original, after), row(connection, original, before)
            connection.execute("UPDATE steps SET id = ? WHERE id = ?", ids)

    return blow


def rewrite(column: str, value: Any, seq: int = 12) -> Callable[[apsw.Connection, Original], None]:
    def blow(connection: apsw.Connection, original: Original) -> None:
        connection.execute(f"UPDATE steps SET {column} = ? WHERE id = ?", (value, row(connection, original, seq)))

    return blow


def sign_anew(seq: int) -> Callable[[apsw.Connection, Original], None]:
    """Somebody who knows our digests rewrites what was said, and signs that one row."""

    def blow(connection: apsw.Connection, original: Original) -> None:
        steps = {step.seq: step for step in _steps(original.path, original.id)}
        forged = msgspec.structs.replace(steps[seq], body=encode_changes(Changes(messages=[user("forged")])))
        digest = step_digest(steps[seq - 1].digest, forged)
        location = row(connection, original, seq)
        body = connection.execute("SELECT body FROM steps WHERE id = ?", (location,)).get
        connection.execute("UPDATE bodies SET data = ? WHERE id = ?", (forged.body, body))
        connection.execute(
            "UPDATE steps SET digest = ?, size_bytes = ? WHERE id = ?", (digest, len(forged.body), location)
        )

    return blow


def forge_head(connection: apsw.Connection, original: Original) -> None:
    """An older head, whole in itself: what a write that never reached the disk leaves behind."""
    sid = sid_of(connection, original)
    head = unseal_head(connection.execute("SELECT record FROM heads WHERE sid = ?", (sid,)).get)
    step = _steps(original.path, original.id)[-4]
    counts = {"message_count": step.message_count, "turns": step.turns}
    shorter = msgspec.structs.replace(head, seq=step.seq, head=step.seq, digest=step.digest, **counts)
    connection.execute("UPDATE heads SET record = ? WHERE sid = ?", (seal(shorter), sid))


def lose_head(connection: apsw.Connection, original: Original) -> None:
    connection.execute("DELETE FROM heads WHERE sid = ?", (sid_of(connection, original),))


def spoil_head(connection: apsw.Connection, original: Original) -> None:
    connection.execute("UPDATE heads SET record = zeroblob(90) WHERE sid = ?", (sid_of(connection, original),))


def lose_bodies(connection: apsw.Connection, original: Original) -> None:
    connection.execute(
        "DELETE FROM bodies WHERE id = (SELECT body FROM steps WHERE id = ?)", (row(connection, original, 12),)
    )


def change_status(connection: apsw.Connection, original: Original) -> None:
    connection.execute("UPDATE sessions SET status = 'completed' WHERE sid = ?", (sid_of(connection, original),))


def change_name(connection: apsw.Connection, original: Original) -> None:
    connection.execute("UPDATE sessions SET name = 'z' WHERE sid = ?", (sid_of(connection, original),))


BLOWS: dict[str, tuple[Callable[[apsw.Connection, Original], None], set[int | None]]] = {
    "a step is missing": (remove(12), {12}),
    "the first step is missing": (remove(1), {1}),
    "two steps are missing": (remove(12, 13), {12, 13}),
    "the tail is lost": (remove(STEPS + 3, STEPS + 4), {STEPS + 3}),
    "a long tail is lost": (remove(*range(4, STEPS + 5)), {4}),
    "bodies are exchanged": (exchange_bodies(12, 15), {12, 15}),
    "rows are exchanged": (exchange_rows(12, 15), {12, 15}),
    "the newest rows are exchanged": (exchange_rows(STEPS + 3, STEPS + 4), {STEPS + 3, STEPS + 4}),
    "a row is signed anew": (sign_anew(12), {12, 13}),
    "the newest row is signed anew": (sign_anew(STEPS + 4), {STEPS + 4}),
    "a body is lost": (lose_bodies, {12}),
    "a kind is changed": (rewrite("kind", "reset"), {12}),
    "a base is changed": (rewrite("base", 3), {12}),
    "a beginning is changed": (rewrite("since", 12), {12}),
    "the newest beginning is changed": (rewrite("since", 12, STEPS + 4), {STEPS + 4}),
    "a count is changed": (rewrite("message_count", 3), {12}),
    "a time is changed": (rewrite("at_us", 0), {12}),
    "a label is changed": (rewrite("label", "x"), {12}),
    "a key is changed": (rewrite("key", b"12345678"), {12}),
    "a digest is changed": (rewrite("digest", b"x" * 32), {12}),
    "the head is older": (forge_head, {STEPS + 2}),
    "the head is lost": (lose_head, {None}),
    "the head is spoilt": (spoil_head, {None}),
}


@pytest.mark.guarantee("G28")
@pytest.mark.parametrize("what", BLOWS)
def test_a_journal_rewritten_row_by_row_is_noticed_and_goes_on(original: Original, tmp_path: Path, what: str) -> None:
    blow, named = BLOWS[what]
    path = tmp_path / "rows.db"
    shutil.copyfile(original.path, path)
    connection = apsw.Connection(str(path))
    blow(connection, original)
    connection.close()
    with relight.open(path) as rl:
        assert not rl.history.verify("a").ok
        assert not rl.history.verify().ok
        with pytest.raises(Corrupt) as caught:
            rl.history.load("a")
        assert caught.value.seq in named, str(caught.value)
        with pytest.raises(Corrupt):
            rl.session("a")
        assert rl.sessions.find("b") is not None
        if caught.value.seq is not None and caught.value.seq > 1:
            assert caught.value.offered is not None, "nothing is offered"
        if what != "the first step is missing":
            rl.runs.prepare("a", from_last_good=True)
            with rl.session("a") as s:
                if "signed anew" not in what:
                    assert s.messages in [messages for messages, _, _ in original.past.values()]
                s.append(user("goes on"))
            assert rl.history.load("a").messages[-1] == user("goes on")
            assert rl.history.verify("a").ok, rl.history.verify("a")


@pytest.mark.guarantee("G28")
def test_every_single_row_signed_anew_is_noticed(original: Original, tmp_path: Path, figure: Figure) -> None:
    path = tmp_path / "signed.db"
    for seq in range(2, original.seq + 1):
        shutil.copyfile(original.path, path)
        connection = apsw.Connection(str(path))
        sign_anew(seq)(connection, original)
        connection.close()
        with relight.open(path) as rl:
            assert not rl.history.verify("a").ok, f"step {seq} was rewritten and signed, and verify says nothing"
            with pytest.raises(Corrupt):
                rl.history.load("a")
    figure(
        "G28", f"each of {original.seq - 1} steps rewritten and signed anew, 0 unnoticed; {len(BLOWS)} other rewritings"
    )


@pytest.mark.parametrize("blow", [change_status, change_name], ids=lambda blow: blow.__name__)
def test_a_column_that_says_what_the_record_does_not_is_noticed(
    original: Original, tmp_path: Path, blow: Callable[[apsw.Connection, Original], None]
) -> None:
    path = tmp_path / "columns.db"
    shutil.copyfile(original.path, path)
    connection = apsw.Connection(str(path))
    blow(connection, original)
    connection.close()
    with relight.open(path) as rl:
        assert not rl.history.verify().ok
        with pytest.raises(RelightError) as caught:
            rl.session("a" if blow is change_status else "z")
        assert not isinstance(caught.value, NotFound)


def test_damage_that_a_rewind_left_behind_keeps_nobody_from_going_on(tmp_path: Path) -> None:
    path = tmp_path / "behind.db"
    with relight.open(path) as rl:
        with rl.session("a") as s:
            for number in range(10):
                s.append(user(str(number)))
        rl.history.rewind("a@4")
        with rl.session("a") as s:
            s.append(user("on"))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE steps SET at_us = 7 WHERE seq = 8")
    connection.close()
    with relight.open(path) as rl:
        report = rl.history.verify("a")
        assert [(problem.seq, problem.abandoned) for problem in report.problems] == [(8, True)]
        assert report.ok
        assert [message["content"] for message in rl.history.load("a").messages] == ["0", "1", "2", "on"]
        with pytest.raises(Corrupt):
            rl.history.load("a@9")


@pytest.mark.guarantee("G28")
def test_the_first_link_of_a_fork_is_checked_wherever_it_was_forked_off(tmp_path: Path) -> None:
    """A fork of a fork, from a point in the session above both, signed anew as if it had begun elsewhere."""
    path = tmp_path / "relight.db"
    with relight.open(path) as rl:
        with rl.session("a") as s:
            for number in range(5):
                s.append(user(f"message {number}"))
        rl.history.fork("a@5", name="b")
        session = rl.history.fork("b@3", name="c", prompt="another way").id
        with rl.session("c") as s:
            s.replace([user("all that matters")])  # from here on nobody loads what lies before
        assert rl.history.verify().ok
        signed, digest = [], bytes(32)
        for step in rl.store.steps(session):
            digest = step_digest(digest, step)
            signed.append((digest, step.digest))
    connection = apsw.Connection(str(path))
    connection.executemany("UPDATE steps SET digest = ? WHERE digest = ?", signed)
    rows: list[Any] = connection.execute("SELECT sid, record FROM heads").fetchall()
    [(sid, head)] = [(sid, head) for sid, record in rows if (head := unseal_head(record)).session == session]
    resealed = seal(msgspec.structs.replace(head, digest=digest))
    connection.execute("UPDATE heads SET record = ? WHERE sid = ?", (resealed, sid))
    connection.close()
    with relight.open(path) as rl:
        assert rl.history.load("c").messages == [user("all that matters")]
        assert [one.seq for one in rl.history.verify("c").problems] == [4]
