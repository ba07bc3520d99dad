"""What hooks and transcript tell of one call is one effect: ended by whichever tells its end."""

from __future__ import annotations

from pathlib import Path

import relight
from relight.agents.gemini.adapter import Gemini
from relight.agents.gemini.records import records_of
from relight.agents.native import jsonl
from relight.history.loading import resolve
from relight.ports.agent import Heard, Surroundings
from relight.sessions.opening import begin_attempt, recorder_for
from relight.supervision.observe import Observer
from tests.support.transcripts import gemini_conversation


def test_a_call_whose_line_comes_together_with_its_result_is_not_left_in_doubt(tmp_path: Path) -> None:
    """Its hook told only that it begins: a refused call has no other."""
    adapter, lines = Gemini(), gemini_conversation()
    where = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path)})
    with relight.open(tmp_path / "store" / "r.db") as rl:
        with rl.session("job") as session:
            name = str(session.id)
        context = rl._context
        recorder = recorder_for(context, resolve(context.store, name))
        begin_attempt(context, recorder, seconds=30)
        observer = Observer(recorder, adapter, None, context.price)
        path = adapter.write(lines[:2], str(adapter.new_id()), where)
        observer.follow(path)
        for line in lines[2:4]:
            [call] = adapter.pending([line])
            observer.record_hook(Heard(kind="tool_begins", call=call.id, tool=call.name, arguments=call.arguments))
        assert [one.id for one in recorder.head.open] == [call.id for call in adapter.pending(lines[2:4])]
        jsonl.append(path, records_of(lines), offset=path.stat().st_size)
        observer.sync()
        assert len(recorder.fold.messages) == len(lines)
        assert recorder.head.open == ()
        assert rl.sessions.get("job").in_doubt == 0
        context.store.release(recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)
