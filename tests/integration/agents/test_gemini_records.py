"""Gemini CLI's session file: each call and result once, however often they are written; its hooks; its command line."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from relight.agents.gemini import command_line, hooks, records
from relight.agents.gemini.adapter import Gemini
from relight.agents.native import jsonl, program
from relight.errors import UsageError
from relight.ports.agent import Ask, Hooks, NativeCall, NativeResult, Rung, Surroundings
from tests.support.transcripts import gemini_conversation, gemini_records

GEMINI = Gemini()
ID = "11111111-1111-4111-8111-111111111111"
APPROVING = Hooks(command=("hook",), file=Path("/nowhere"), approve=("Bash",), deny="{}")
NOWHERE = Surroundings(directory="/", environment={"HOME": "/nowhere"})


def _keys(raw: list[dict[str, Any]]) -> list[str]:
    return [entry.key for entry in records.entries(records.lines_of(records.resolved(raw)))]


def test_lines_only_grow_although_a_reply_is_written_again_with_its_calls() -> None:
    raw = gemini_records()
    whole = _keys(raw)
    for length in range(len(raw)):
        assert whole[: len(_keys(raw[:length]))] == _keys(raw[:length])
    kinds = [key.partition(":")[0] for key in whole]
    assert kinds == ["line", "line", "call", "call", "result", "result", "line"]
    assert len(set(whole)) == len(whole)


def test_a_patch_replaces_all_and_a_rewind_removes_from_its_message_on() -> None:
    raw = gemini_records()
    first = raw[2]
    assert _keys([*raw, {"$set": {"messages": [first]}}]) == [f"line:{first['id']}"]
    assert _keys([*raw, {"$rewindTo": raw[4]["id"]}]) == [f"line:{first['id']}"]
    assert _keys([*raw, {"$rewindTo": "nobody"}]) == []


def test_the_tokens_of_a_reply_count_once_and_have_one_meaning() -> None:
    found = records.entries(gemini_conversation())
    [usage] = [entry.usage for entry in found if entry.usage is not None]
    assert (usage.input_tokens, usage.cache_read_tokens) == (70, 30)
    assert (usage.output_tokens, usage.reasoning_tokens) == (15, 5)
    assert [entry.ends_turn for entry in found] == [False] * 6 + [True]


@pytest.fixture
def here(tmp_path: Path) -> Surroundings:
    (tmp_path / "work").mkdir()
    return Surroundings(directory=str(tmp_path / "work"), environment={"HOME": str(tmp_path)})


def _file(here: Surroundings, raw: list[dict[str, Any]]) -> Path:
    """A session file as Gemini CLI has written it."""
    path = GEMINI.write([], ID, here)
    path.write_bytes(jsonl.encode([{**raw[0], "sessionId": ID}, *raw[1:]]))
    return path


def _sent(path: Path) -> list[dict[str, Any]]:
    """The parts that Gemini CLI would send after a resume: of contents, and of the calls recorded in replies."""
    found: list[dict[str, Any]] = []
    for record in records.resolved(jsonl.read(path).lines):
        content = record["content"]
        found += content if isinstance(content, list) else [{"text": content}]
        for call in record.get("toolCalls", ()):
            found += [{"functionCall": call}, *call["result"]]
    return found


def test_before_a_resume_each_result_is_in_the_file_once_and_nothing_else_is_changed(here: Surroundings) -> None:
    path = _file(here, gemini_records())
    before, keys = path.read_bytes(), _keys(gemini_records())
    assert len([part for part in _sent(path) if "functionResponse" in part]) == 4
    GEMINI.append(path, (), offset=len(before))
    assert path.read_bytes()[: len(before)] == before
    assert [entry.key for entry in GEMINI.read(path).entries] == keys
    calls = [part["functionCall"] for part in _sent(path) if "functionCall" in part]
    results = [part["functionResponse"] for part in _sent(path) if "functionResponse" in part]
    assert [one["id"] for one in calls] == [one["id"] for one in results]
    assert len(calls) == 2
    once = path.read_bytes()
    GEMINI.append(path, (), offset=len(once))
    assert path.read_bytes() == once, "it is in the right form already"


def test_a_prompt_that_begins_like_a_command_is_not_left_out_on_resuming(here: Surroundings) -> None:
    said = records.prompted("/etc/hosts is wrong", at_us=0)
    path = GEMINI.write([said], ID, here)
    [part] = _sent(path)
    assert not part["text"].strip().startswith("/")
    [entry] = GEMINI.read(path).entries
    assert entry.line["content"] == said["content"]


def _event(name: str, command: str, **more: Any) -> dict[str, Any]:
    given = {"tool_name": "run_shell_command", "tool_input": {"command": command}}
    return {"hook_event_name": name, "session_id": ID, **given, **more}


def test_a_hook_and_the_file_know_a_call_by_the_same_id(here: Surroundings) -> None:
    raw = gemini_records()
    _file(here, raw[:5])
    heard = [GEMINI.hears(_event("BeforeTool", f"echo {name}"), here) for name in ("one", "two")]
    found = [one.call for one in heard if one is not None and one.kind == "tool_begins"]
    assert [f"call:{name}" for name in found] == _keys(raw)[2:4]
    told = {"llmContent": [{"text": "out"}, {"text": "more"}], "error": {"message": "no"}}
    ended = GEMINI.hears(_event("AfterTool", "echo one", tool_response=told), here)
    assert ended is not None
    assert (ended.kind, ended.call, ended.result, ended.failed) == ("tool_ended", found[0], "out\nmore", True)


def test_a_call_that_only_a_hook_has_reported_is_part_of_its_reply_in_the_file(here: Surroundings) -> None:
    path = _file(here, gemini_records()[:5])
    lines = [entry.line for entry in GEMINI.read(path).entries]
    heard = GEMINI.hears(_event("BeforeTool", "echo one"), here)
    assert heard is not None
    call = NativeCall(id=heard.call, name=heard.tool, arguments=heard.arguments)
    added = [GEMINI.asked(call, lines, at_us=0)]
    added += GEMINI.answered({call.id: NativeResult(text="outcome unknown")}, [*lines, *added], at_us=0)
    GEMINI.append(path, added, offset=path.stat().st_size)
    read = GEMINI.read(path)
    assert [entry.key for entry in read.entries][-2:] == [f"call:{call.id}", f"result:{call.id}"]
    assert Counter(entry.line["id"] for entry in read.entries)[lines[-1]["id"]] == 2


def test_equal_calls_of_one_reply_have_ids_of_their_own() -> None:
    [reply] = [record for record in gemini_records() if "toolCalls" in record]
    twice = {**reply, "toolCalls": [{**reply["toolCalls"][0], "id": name} for name in "ab"]}
    calls = [key for key in _keys([twice]) if key.startswith("call:")]
    assert len(set(calls)) == 2


# ---------------------------------------------------------------- the extension and the command line


def _launched(here: Surroundings, *words: str, rung: Rung = "native", **more: Any) -> Any:
    return GEMINI.launch(Ask(command=("gemini", *words), surroundings=here, rung=rung, native_id=ID, **more))


def test_the_extension_is_written_once_and_silent_where_relight_is_not(here: Surroundings) -> None:
    ours = Hooks(command=("sh", "-c", "echo told"), file=Path(here.directory, "unused"))
    launch = _launched(here, "-p", "do it", hooks=ours)
    assert len(launch.files) == 3
    for path, content in launch.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert _launched(here, "-p", "do it", hooks=ours).files == {}
    [installed] = [path for path in launch.files if path.name == "hooks.json"]
    events = json.loads(installed.read_text())["hooks"]
    assert set(events) == {"BeforeTool", "AfterTool", "BeforeModel", "AfterAgent"}
    for event, said in (("BeforeTool", "told\n"), ("BeforeModel", "")):
        command = ["sh", "-c", events[event][0]["hooks"][0]["command"]]
        ran = {"PATH": "/usr/bin:/bin", **launch.environment}
        for environment, expected in (({"PATH": ran["PATH"]}, ""), (ran, said)):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            assert done.stdout == expected
    gated = hooks.environment(Hooks(command=("true",), file=Path("x"), gate=True))
    assert gated.keys() - launch.environment.keys()


@pytest.mark.parametrize(
    ("words", "task", "headless"),
    [
        (("-p", "do it"), "do it", True),
        (("--prompt=do it",), "do it", True),
        (("-o", "json", "do", "it"), "do it", True),
        (("-i", "do it"), "do it", False),
        (("do it",), "do it", False),
        ((), None, False),
    ],
)
def test_what_it_is_asked_to_do_and_whether_it_draws_a_screen(words: Any, task: str | None, headless: bool) -> None:
    assert GEMINI.task_of(("gemini", *words)) == task
    assert _launched(NOWHERE, *words, rung="fresh").headless == headless


def test_a_resume_names_its_session_alone_and_a_prompt_is_never_a_flag() -> None:
    flags = ("--model", "pro", "--resume", "latest", "-p", "do it", "--yolo")
    launch = _launched(NOWHERE, *flags, prompt="--help")
    assert launch.command == ("gemini", "--model", "pro", "--yolo", "--resume", ID, "--prompt", " --help")
    assert launch.environment["GEMINI_CLI_NO_RELAUNCH"] == "true"
    assert _launched(NOWHERE, "-p", "x").command[-1] == program.GO_ON
    assert _launched(NOWHERE).command == ("gemini", "--resume", ID)
    assert _launched(NOWHERE, "hi", rung="fresh").command == ("gemini", "--session-id", ID, "hi")


@pytest.mark.parametrize(
    "words", ["mcp list", "--acp", "-p x --sandbox", "--list-sessions", "--worktree a", "--version"]
)
def test_what_is_no_session_of_its_own_is_a_command_like_any_other(words: str) -> None:
    assert not GEMINI.recognises(["gemini", *words.split()])


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (".gemini settings.json", '{ // mine\n "hooksConfig": {"enabled": false}}'),
        ("work .gemini settings.json", '{"hooksConfig": {"disabled": ["test -z $GEMINI_CLI_RELIGHT_TOOL"]}}'),
        (".gemini settings.json", '{"admin": {"extensions": {"enabled": false}}}'),
        (".gemini extensions extension-enablement.json", '{"relight": {"overrides": ["!/*"]}}'),
    ],
)
def test_settings_that_switch_its_hooks_off_are_refused_if_calls_need_approval(
    file: str, content: str, here: Surroundings, tmp_path: Path
) -> None:
    ask = Ask(command=("gemini", "-p", "x"), surroundings=here, rung="fresh", hooks=APPROVING)
    assert command_line.launch(ask).environment["GEMINI_CLI_RELIGHT_TOOL"].startswith("hook '{}' || ")
    path = Path(tmp_path, *file.split())
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UsageError, match="cannot be made to wait"):
        command_line.launch(ask)
