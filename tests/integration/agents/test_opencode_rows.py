"""opencode's rows as lines: they only grow, an open call is ended in its row, what is written is imported as it is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relight.agents.opencode import rows
from relight.agents.opencode.adapter import Opencode
from relight.agents.opencode.rows import Row, Said
from relight.ports.agent import Ask, NativeResult, Surroundings
from tests.support.transcripts import opencode_conversation

SESSION = "ses_e1b976ba9ffeReH3PEC79uigc8"
ADAPTER = Opencode()
_SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER,
                   data TEXT);
"""


def _name(kind: str, number: int) -> str:
    return f"{kind}_{number:012x}{'A' * 14}"


def _part(number: int, **data: Any) -> Row:
    return Row(_name("prt", number), 1000 + number, data)


def _tool(number: int, status: str, start: int = 0, end: int = 0) -> Row:
    times: dict[str, Any] = {"time": {"start": start, **({"end": end} if end else {})}} if start else {}
    told = {"completed": {"output": "ok"}, "error": {"error": "no"}}.get(status, {})
    state = {"status": status, "input": {"command": f"echo {number}"}, **told, **times}
    return _part(number, type="tool", tool="bash", callID=f"call_{number}", state=state)


def _reply(*parts: Row, number: int = 2, **more: Any) -> Said:
    data = {"role": "assistant", "parentID": _name("msg", 1), "modelID": "m", **more}
    return Said(Row(_name("msg", number), 1001, data), parts)


PROMPT = Said(Row(_name("msg", 1), 1000, {"role": "user"}), (_part(1, type="text", text='"do it"'),))


def states() -> Iterator[list[Said]]:
    """The rows of one reply with a text and two calls, the second begun when the first had ended, as they grow."""
    text, ended = {"type": "text", "text": "two"}, {"time": {"start": 1002, "end": 1009}}
    finish = {"type": "step-finish", "reason": "stop", "tokens": {"input": 5, "output": 1}, "cost": 0.5}
    yield [PROMPT]
    yield [PROMPT, _reply()]
    yield [PROMPT, _reply(_part(2, **text, time={"start": 1002}))]
    yield [PROMPT, _reply(_part(2, **text, time={"start": 1002}), _tool(3, "running", 1004))]
    yield [PROMPT, _reply(_part(2, **text, **ended), _tool(3, "running", 1004))]
    yield [PROMPT, _reply(_part(2, **text, **ended), _tool(3, "running", 1004), _tool(4, "pending"))]
    yield [PROMPT, _reply(_part(2, **text, **ended), _tool(3, "completed", 1004, 1015), _tool(4, "pending"))]
    done = (_part(2, **text, **ended), _tool(3, "completed", 1004, 1015))
    yield [PROMPT, _reply(*done, _tool(4, "running", 1020))]
    yield [PROMPT, _reply(*done, _tool(4, "error", 1020, 1030))]
    yield [PROMPT, _reply(*done, _tool(4, "error", 1020, 1030), _part(40, **finish))]


def _keys(said: list[Said]) -> list[str]:
    return [rows.key_of(line) for line in rows.lines_of(said)]


def test_lines_only_grow_while_rows_change() -> None:
    known: list[str] = []
    for said in states():
        now = _keys(said)
        assert now[: len(known)] == known
        known = now
    assert known[1:] == [
        f"part:{_name('prt', 2)[:16]}",
        "call:call_3",
        "result:call_3",
        "call:call_4",
        "result:call_4",
        f"part:{_name('prt', 40)[:16]}",
    ]


def test_a_call_is_known_when_its_tool_has_begun_and_not_before() -> None:
    seen = [[key for key in _keys(said) if key.startswith("call:")] for said in states()]
    assert seen[:6] == [[], [], [], [], ["call:call_3"], ["call:call_3"]]


@pytest.fixture
def there(tmp_path: Path) -> Surroundings:
    """A home with a database in which the process died: one call runs, the next one had not begun."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    place = home / ".local/share/opencode"
    place.mkdir(parents=True)
    with sqlite3.connect(place / "opencode.db") as db:
        db.executescript(_SCHEMA)
        db.execute("INSERT INTO session VALUES (?, NULL, ?, 5, 9)", (SESSION, str(work)))
        for said in (PROMPT, _reply(_tool(3, "running", 1004), _tool(4, "pending"))):
            data = json.dumps(said.message.data)
            db.execute("INSERT INTO message VALUES (?, ?, ?, 0, ?)", (said.message.id, SESSION, 1000, data))
            for part in said.parts:
                row = (part.id, said.message.id, SESSION, part.created_ms, json.dumps(part.data))
                db.execute("INSERT INTO part VALUES (?, ?, ?, ?, 0, ?)", row)
    db.close()
    return Surroundings(directory=str(work), environment={"HOME": str(home), "PATH": ""})


def test_an_open_call_is_ended_in_its_row_and_one_that_had_not_begun_is_told_as_that(there: Surroundings) -> None:
    path = ADAPTER.locate(SESSION, there)
    assert path is not None
    lines = [entry.line for entry in ADAPTER.read(path).entries]
    [call] = ADAPTER.pending(lines)
    repair = ADAPTER.answered({call.id: NativeResult(text="outcome unknown")}, lines, at_us=2_000_000)
    ADAPTER.append(path, repair, offset=0)
    now = [entry.line for entry in ADAPTER.read(path).entries]
    assert ADAPTER.pending(now) == []
    told = {line["part"]["data"]["callID"]: line["part"]["data"]["state"]["error"] for line in now if _is_result(line)}
    assert told == {"call_3": "outcome unknown", "call_4": rows.NOT_BEGUN}
    ADAPTER.append(path, repair, offset=0)
    assert [entry.line for entry in ADAPTER.read(path).entries] == now, "repeated it changes nothing"


def _is_result(line: dict[str, Any]) -> bool:
    return line["opencode"] == "result"


def test_a_call_behind_a_text_without_an_end_is_open_once_the_text_is_ended(there: Surroundings) -> None:
    path = ADAPTER.locate(SESSION, there)
    assert path is not None
    place = Path(there.environment["HOME"], ".local/share/opencode/opencode.db")
    text = {"type": "text", "text": "half", "time": {"start": 1002}}
    with sqlite3.connect(place) as db:
        row = (_name("prt", 2), _name("msg", 2), SESSION, json.dumps(text))
        db.execute("INSERT INTO part VALUES (?, ?, ?, 1002, 0, ?)", row)
    db.close()
    lines = [entry.line for entry in ADAPTER.read(path).entries]
    assert ADAPTER.pending(lines) == [], "not known yet: the text may still grow"
    ADAPTER.append(path, (), offset=0)
    now = [entry.line for entry in ADAPTER.read(path).entries]
    told = [line["part"]["data"]["state"]["error"] for line in now if _is_result(line)]
    assert told == [rows.NOT_BEGUN], "of the one that had not begun"
    [begun] = ADAPTER.pending(now)
    ADAPTER.append(path, ADAPTER.answered({begun.id: NativeResult(text="cut off")}, now, at_us=1), offset=0)
    after = [entry.line for entry in ADAPTER.read(path).entries]
    assert ADAPTER.pending(after) == []
    assert {line["part"]["data"]["state"]["error"] for line in after if _is_result(line)} == {"cut off", rows.NOT_BEGUN}


def test_a_session_of_another_directory_is_not_gone_on_with(there: Surroundings, tmp_path: Path) -> None:
    elsewhere = Surroundings(directory=str(tmp_path), environment=there.environment)
    assert ADAPTER.locate(SESSION, elsewhere) is None
    assert ADAPTER.sessions(elsewhere) == []
    assert ADAPTER.sessions(there, since_us=5000) == [SESSION]
    assert ADAPTER.sessions(there, since_us=6000) == [], "begun before, and written to since"


def test_a_written_session_is_imported_once_under_ids_of_its_own(there: Surroundings) -> None:
    name = ADAPTER.new_id()
    assert name is not None
    path = ADAPTER.write(opencode_conversation(), name, there)
    ask = Ask(command=("opencode", "run", "do it"), surroundings=there, rung="native", native_id=name, prompt="go on")
    launch = ADAPTER.launch(ask)
    assert launch.command[:2] == ("sh", "-c") and launch.command[-1] == "go on"
    [(bundle, data)] = launch.files.items()
    assert bundle.parent == path.parent
    given = json.loads(data)
    assert given["info"]["id"] == name
    said = [part["state"] for one in given["messages"] for part in one["parts"] if part["type"] == "tool"]
    assert [state["status"] for state in said] == ["completed", "error"]
    old = {line["message"]["id"] for line in opencode_conversation()}
    assert not old & {one["info"]["id"] for one in given["messages"]}, "ids are unique over all sessions"
    resumed = msgspec.structs.replace(ask, native_id=SESSION)
    assert ADAPTER.launch(resumed).files == {}, "what the database has is not imported"
