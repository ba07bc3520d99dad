"""What hooks and transcript tell of one call is one effect: ended by whichever tells its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import relight
from relight.agents.gemini.adapter import Gemini
from relight.agents.gemini.records import records_of
from relight.agents.native import jsonl
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.ports.agent import Heard, Line, NativeCall, Surroundings
from relight.sessions.opening import begin_attempt, recorder_for
from relight.supervision.observe import Observer
from tests.support.transcripts import gemini_conversation


@contextmanager
def observed(base: Path, lines: Sequence[Line]) -> Iterator[tuple[Relight, Observer, Path]]:
    """A session of Gemini CLI at work, whose file has these lines."""
    adapter = Gemini()
    where = Surroundings(directory=str(base), environment={"HOME": str(base)})
    with relight.open(base / "store" / "r.db") as rl:
        with rl.session("job") as session:
            name = str(session.id)
        context = rl._context
        recorder = recorder_for(context, resolve(context.store, name))
        begin_attempt(context, recorder, seconds=30)
        observer = Observer(recorder, adapter, None, context.price)
        path = adapter.write(lines, str(adapter.new_id()), where)
        observer.follow(path)
        yield rl, observer, path
        context.store.release(recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)


def begins(observer: Observer, line: Line) -> NativeCall:
    """Its hook tells that the call of this line begins."""
    [call] = observer.adapter.pending([line])
    observer.record_hook(Heard(kind="tool_begins", call=call.id, tool=call.name, arguments=call.arguments))
    return call


def test_a_call_whose_line_comes_together_with_its_result_is_not_left_in_doubt(tmp_path: Path) -> None:
    """Its hook told only that it begins: a refused call has no other."""
    lines = gemini_conversation()
    with observed(tmp_path, lines[:2]) as (rl, observer, path):
        recorder = observer.recorder
        calls = [begins(observer, line) for line in lines[2:4]]
        assert [one.id for one in recorder.head.open] == [call.id for call in calls]
        jsonl.append(path, records_of(lines), offset=path.stat().st_size)
        observer.sync()
        assert len(recorder.fold.messages) == len(lines)
        assert recorder.head.open == ()
        assert rl.sessions.get("job").in_doubt == 0


def test_calls_that_did_not_begin_are_pending_once_in_the_file_of_an_agent_that_had_not_written_them(
    tmp_path: Path,
) -> None:
    lines = gemini_conversation()
    with observed(tmp_path, lines[:2]) as (rl, observer, path):
        begun = begins(observer, lines[2])
        [held] = observer.adapter.pending([lines[3]])
        observer.take_back([begun.id], [held, held], now_us=1)
        found = observer.adapter.read(path)
        assert [one.id for one in observer.adapter.pending([one.line for one in found.entries])] == [begun.id, held.id]
        assert observer.recorder.head.open == () and rl.sessions.get("job").in_doubt == 0
        assert not observer.sync(), "the journal has what the file has"


def beside(rl: Relight, observer: Observer, path: Path) -> Observer:
    """As a hook that no supervisor answered: another process, under the lease of the supervisor."""
    context, owned = rl._context, observer.recorder
    recorder = recorder_for(context, resolve(context.store, owned.identity.id))
    recorder.owner, recorder.epoch = owned.owner, owned.epoch
    other = Observer(recorder, observer.adapter, None, context.price)
    other.follow(path)
    return other


@pytest.mark.parametrize("rewritten", [False, True], ids=["grown", "rewritten"])
def test_lines_that_several_record_under_one_lease_are_recorded_once(tmp_path: Path, rewritten: bool) -> None:
    lines = gemini_conversation()
    with observed(tmp_path, lines[:2]) as (rl, supervisor, path):
        supervisor.sync()
        first, second = beside(rl, supervisor, path), beside(rl, supervisor, path)
        left = lines[1:] if rewritten else lines
        grown = [{"$set": {"messages": records_of(left)}}] if rewritten else records_of(lines)
        jsonl.append(path, grown, offset=path.stat().st_size)
        [call] = supervisor.adapter.pending(lines[:3])
        begun = Heard(kind="tool_begins", call=call.id, tool=call.name, arguments=call.arguments)
        assert first.sync() and not second.sync()
        second.record_hook(begun)  # so that the supervisor learns of other steps by a commit of its own
        supervisor.record_hook(begun)
        for one in (first, second, supervisor):
            one.sync()
        expected = [supervisor.adapter.key(line) for line in left]
        for recorder in (supervisor.recorder, second.recorder):
            assert [supervisor.adapter.key(line) for line in recorder.fold.messages] == expected
        assert [supervisor.adapter.key(line) for line in rl.history.load("job").messages] == expected
