"""A conversation handed to another agent: all of it arrives, the provider accepts it, and what is lost is reported."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import msgspec
import pytest

from relight.agents.claude_code.dialect import CLAUDE_DIALECT
from relight.agents.codex.dialect import CODEX_DIALECT
from relight.agents.gemini.dialect import GEMINI_DIALECT
from relight.agents.opencode.dialect import OPENCODE_DIALECT
from relight.agents.pi.dialect import PI_DIALECT
from relight.journal.conversion.convert import Converted, convert, in_neutral_terms
from relight.journal.conversion.dialect import Dialect
from relight.journal.conversion.grammar import NO_BEGINNING, faults, normalised
from relight.journal.conversion.losses import Loss, LossReport
from relight.journal.conversion.plain import WRITERS
from relight.journal.formats.registry import by_name
from relight.values.view import Block, Call, Image, Message, Reason, Result, ResultStatus, Text
from tests.support.transcripts import ClaudeLines, codex_meta, function_call, function_output, item, rollout_line, said

DIALECTS: tuple[Dialect, ...] = (CLAUDE_DIALECT, CODEX_DIALECT, GEMINI_DIALECT, OPENCODE_DIALECT, PI_DIALECT)
WITHOUT_DIRECTORY = (CLAUDE_DIALECT, PI_DIALECT)
"""their shell has no argument for one"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
AT = 1_790_000_000_000_000
_STATUSES: list[ResultStatus] = ["ok", "error", "unknown"]
REASONING = Loss(kind="dropped", what="reasoning of the model")


def claude_session() -> list[dict[str, Any]]:
    """Thinking, parallel calls whose results come in the other order, one of them failing; an image in a prompt and in
    a result; a write, two edits; a call that is cut off."""
    made = ClaudeLines()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    made.user("do the work é")
    made.add("user", message={"role": "user", "content": "<command-name>/clear</command-name>"})
    made.block("msg_1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    made.block("msg_1", {"type": "text", "text": "I look"})
    one, two = made.call("msg_1", "toolu_1"), made.call("msg_1", "toolu_2")
    failed = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "Exit code 1\nno such file", "is_error": True}
    made.add("user", message={"role": "user", "content": [failed]}, parent=two)
    made.result("toolu_1", one)
    for number, (name, given) in enumerate(
        [
            ("Write", {"file_path": "/w/a.txt", "content": "one\ntwo\n"}),
            ("Write", {"file_path": "/w/b.txt", "content": "no newline"}),
            ("Edit", {"file_path": "/w/a.txt", "old_string": "two\n", "new_string": "three\n"}),
            ("Edit", {"file_path": "/w/a.txt", "old_string": "hre", "new_string": "HRE"}),
            ("mcp__db__query", {"sql": "select 1"}),
        ]
    ):
        block = {"type": "tool_use", "id": f"toolu_w{number}", "name": name, "input": given}
        made.result(f"toolu_w{number}", made.block(f"msg_w{number}", block))
    block = {"type": "tool_use", "id": "toolu_r", "name": "Read", "input": {"file_path": "/w/p.png"}}
    asked = made.block("msg_r", block)
    read = {"type": "tool_result", "tool_use_id": "toolu_r", "content": [image], "is_error": False}
    made.add("user", message={"role": "user", "content": [read]}, parent=asked)
    made.says("msg_3", "first part done")
    made.add("user", message={"role": "user", "content": [{"type": "text", "text": "like this?"}, image]})
    made.call("msg_4", "toolu_cut")
    return made.lines


def codex_session() -> list[dict[str, Any]]:
    """The same kinds of content, as Codex has them."""
    patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch"
    both = "*** Begin Patch\n*** Delete File: a.txt\n*** Add File: c.txt\n+x\n*** End Patch"
    url = f"data:image/png;base64,{PIXEL}"
    wrapped = [{"type": "input_text", "text": '<image name="p.png">'}, {"type": "input_image", "image_url": url}]
    exited = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno such file"
    return [
        codex_meta(cwd="/w"),
        said(1, "developer", "be good"),
        said(2, "user", "<environment_context>\n  <cwd>/w</cwd>"),
        item(3, "message", role="user", content=[{"type": "input_text", "text": "do the work é"}, *wrapped]),
        item(4, "reasoning", id="rs_1", summary=[], encrypted_content="b3BhcXVl"),
        said(5, "assistant", "I look"),
        function_call(6, "call_1"),
        item(7, "function_call", name="exec_command", arguments='{"cmd": "ls", "workdir": "/t"}', call_id="call_2"),
        item(8, "function_call_output", call_id="call_1", output=exited),
        function_output(9, "call_2"),
        item(10, "custom_tool_call", name="apply_patch", input=patch, call_id="call_3"),
        item(11, "custom_tool_call_output", call_id="call_3", output="Done"),
        item(12, "custom_tool_call", name="apply_patch", input=both, call_id="call_4"),
        item(13, "custom_tool_call_output", call_id="call_4", output="Done"),
        item(14, "function_call", name="view_image", arguments='{"path": "/w/p.png"}', call_id="call_5"),
        item(15, "function_call_output", call_id="call_5", output=[{"type": "input_image", "image_url": url}]),
        item(16, "function_call", name="shell", arguments='{"command": ["bash", "-lc", "ls"]}', call_id="call_6"),
        item(17, "function_call_output", call_id="call_6", output="[error] aborted"),
        said(18, "assistant", "first part done"),
        said(19, "user", "go on"),
        function_call(20, "call_cut"),
    ]


def as_in(target: Dialect) -> list[dict[str, Any]]:
    """The session of Claude Code, as another agent has it."""
    return convert(CLAUDE_DIALECT.spoken(claude_session()), target, at_us=AT).lines


SESSIONS: tuple[tuple[Dialect, list[dict[str, Any]]], ...] = (
    (CLAUDE_DIALECT, claude_session()),
    (CODEX_DIALECT, codex_session()),
    (OPENCODE_DIALECT, as_in(OPENCODE_DIALECT)),
    (PI_DIALECT, as_in(PI_DIALECT)),
    (GEMINI_DIALECT, as_in(GEMINI_DIALECT)),
)


def whole(messages: Sequence[Message]) -> list[Message]:
    """The neutral form that has to arrive."""
    return [msgspec.structs.replace(one, index=0) for one in normalised(messages, LossReport(), closings={})]


@pytest.mark.parametrize(("source", "target"), [*product(SESSIONS, DIALECTS)])
def test_every_agent_continues_the_whole_history_of_every_other_from_every_message(
    source: tuple[Dialect, list[dict[str, Any]]], target: Dialect
) -> None:
    reader, lines = source
    for upto in range(1, len(lines) + 1):
        spoken = reader.spoken(lines[:upto])
        made = convert(spoken, target, at_us=AT)
        assert made.faults == []
        expected = whole(spoken)
        if target in WITHOUT_DIRECTORY:
            expected = [_in_directory(message) for message in expected]
        assert _bare(made.messages) == _bare(expected)
        lost = {loss.what for loss in made.losses}
        assert lost <= {
            REASONING.what,
            "text of the agent's own instructions",
            "argument cmd of shell",
            "argument dir of shell",
            "first message of the user",
        }
        assert ("argument dir of shell" in lost) == (target in WITHOUT_DIRECTORY and _has_directory(spoken))


@pytest.mark.parametrize(("source", "target"), [*product(SESSIONS, DIALECTS)])
def test_a_conversation_that_comes_back_is_the_same(
    source: tuple[Dialect, list[dict[str, Any]]], target: Dialect
) -> None:
    reader, lines = source
    there = convert(reader.spoken(lines), target, at_us=AT)
    back = convert(target.spoken(there.lines), reader, at_us=AT + 1)
    again = convert(reader.spoken(back.lines), target, at_us=AT + 2)
    assert (back.faults, again.faults) == ([], [])
    assert _bare(again.messages) == _bare(there.messages)
    assert again.losses == []


@pytest.mark.parametrize("source", SESSIONS[:2])
def test_a_call_that_was_cut_off_is_closed_with_its_evidence(source: tuple[Dialect, list[dict[str, Any]]]) -> None:
    reader, lines = source
    name = "toolu_cut" if reader is CLAUDE_DIALECT else "call_cut"
    closing = Result(call=name, status="error", text="it ran: 3 files changed")
    for target in DIALECTS:
        made = convert(reader.spoken(lines), target, at_us=AT, closings={name: closing})
        assert made.messages[-1].blocks == (closing,)
        assert made.faults == []


class _Lossy:
    """A writer with a planted loss."""

    def __init__(self, inner: Dialect, spoil: Callable[[list[Message]], list[Message]]) -> None:
        self._inner, self._spoil = inner, spoil
        self.format, self.max_result, self.tools = inner.format, inner.max_result, inner.tools
        self.spoken, self.line_faults = inner.spoken, inner.line_faults

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[dict[str, Any]]:
        return self._inner.written(self._spoil(list(messages)), at_us=at_us)


def _each(change: Callable[[Block], Block | None]) -> Callable[[list[Message]], list[Message]]:
    def spoil(messages: list[Message]) -> list[Message]:
        changed = [tuple(new for one in m.blocks if (new := change(one)) is not None) for m in messages]
        return [msgspec.structs.replace(m, blocks=b) for m, b in zip(messages, changed, strict=True) if b]

    return spoil


PLANTED: list[tuple[Callable[[list[Message]], list[Message]], str, str]] = [
    (lambda messages: [*messages[:3], *messages[4:]], "dropped", "message of the"),
    (lambda messages: messages[:-1], "dropped", "message of the"),
    (_each(lambda one: None if isinstance(one, Image) else one), "dropped", "image"),
    (
        _each(lambda one: msgspec.structs.replace(one, status="ok") if isinstance(one, Result) else one),
        "changed",
        "status",
    ),
    (
        _each(lambda one: msgspec.structs.replace(one, text=one.text[:3]) if isinstance(one, Text) else one),
        "cut",
        "text",
    ),
    (
        _each(
            lambda one: (
                msgspec.structs.replace(one, arguments={**dict(one.arguments), "cmd": "rm"})
                if isinstance(one, Call) and one.op == "shell" and isinstance(one.arguments, dict)
                else one
            )
        ),
        "changed",
        "argument cmd of shell",
    ),
]


@pytest.mark.parametrize(("number", "target"), [*product(range(len(PLANTED)), DIALECTS)])
@pytest.mark.parametrize("source", SESSIONS)
def test_a_planted_loss_is_reported(source: tuple[Dialect, list[dict[str, Any]]], number: int, target: Dialect) -> None:
    spoil, kind, what = PLANTED[number]
    spoken = source[0].spoken(source[1])
    honest = convert(spoken, target, at_us=AT).losses
    lossy = convert(spoken, _Lossy(target, spoil), at_us=AT).losses
    assert [one for one in lossy if one not in honest and one.kind == kind and what in one.what]


def test_any_messages_become_a_conversation_that_every_provider_accepts(sample: Callable[..., int]) -> None:
    for seed in range(sample(60, proof=5000)):
        chosen = random.Random(seed)
        messages = [_random_message(chosen) for _ in range(chosen.randrange(1, 12))]
        for target in DIALECTS:
            made = convert(in_neutral_terms(messages), target, at_us=AT)
            assert made.faults == [], seed
            assert _bare(made.messages) == _bare(whole(in_neutral_terms(messages))) or made.losses, seed


def _random_message(chosen: random.Random) -> Message:
    ids = ["a", "b", "a b/é", "", "x" * 200]
    names = ["Bash", "shell", "write", "do it.now", "", "apply_patch", "y" * 99]
    arguments: list[Any] = ["{not json", {}, {"cmd": "ls"}, {"path": "/p", "content": "x\n"}, {"input": "*** Begin"}]
    texts = ["", "out", "[error] no", "Process exited with code 1", "outcome unknown: x"]
    role: Any = chosen.choice(["user", "assistant", "tool", "system"])
    choice: dict[str, list[Block]] = {
        "assistant": [
            Call(id=chosen.choice(ids), name=chosen.choice(names), arguments=chosen.choice(arguments), op="other"),
            Text(text=chosen.choice(["", " ", "hi"])),
            Reason(text="r"),
        ],
        "tool": [Result(call=one, text=chosen.choice(texts), status=chosen.choice(_STATUSES)) for one in ids],
        "user": [Text(text="say"), Image(media="image/png", data=PIXEL), Text(text="")],
        "system": [Text(text="be good")],
    }
    return Message(role=role, blocks=tuple(chosen.choices(choice[role], k=chosen.randrange(4))), index=0)


def test_what_is_too_long_is_cut_at_a_message_of_the_user_and_reported() -> None:
    turns = [
        Message(role=role, blocks=(Text(text=f"{role} {number} " + "x" * 1000),), index=0)
        for number in range(10)
        for role in ("user", "assistant")
    ]
    made = convert(turns, CLAUDE_DIALECT, at_us=AT, max_chars=5000)
    assert made.faults == []
    texts = [block.text for message in made.messages for block in message.blocks if isinstance(block, Text)]
    assert texts[0].startswith("[16 earlier messages")
    assert [text[:10].strip() for text in texts[1:]] == ["user 8 xxx", "assistant", "user 9 xxx", "assistant"]
    assert sum(loss.count for loss in made.losses if loss.kind != "added") >= 15
    long = [Message(role="user", blocks=(Text(text="go"),), index=0)]
    long.append(Message(role="assistant", blocks=(Call(id="c", name="f", arguments={}, op="other"),), index=0))
    long.append(Message(role="tool", blocks=(Result(call="c", text="y" * 50_000),), index=0))
    assert Loss(kind="cut", what="text of a result") in convert(long, CODEX_DIALECT, at_us=AT).losses
    assert convert(long, CLAUDE_DIALECT, at_us=AT).losses == []


def test_a_fault_is_found_before_anything_starts() -> None:
    call, result = Call(id="a", name="f", arguments={}, op="other"), Result(call="a")
    good: list[tuple[Any, tuple[Block, ...]]] = [
        ("user", (Text(text="x"),)),
        ("assistant", (call,)),
        ("tool", (result,)),
    ]
    assert faults(_messages(*good)) == []
    assert faults(_messages(*good[1:])) != []
    assert faults(_messages(*good[:2])) != []
    assert faults(_messages(good[0], good[2], good[1])) != []
    assert faults(_messages(*good, *good[1:])) != []
    assert faults(_messages(good[0], ("assistant", (Reason(text="t", opaque="s"),)))) != []
    assert faults(_messages(("user", (Text(text=" "),)))) != []
    assert faults(_messages(good[0], ("assistant", (msgspec.structs.replace(call, name="a b"),)), good[2])) != []


def _messages(*given: tuple[Any, tuple[Block, ...]]) -> list[Message]:
    return [Message(role=role, blocks=blocks, index=0) for role, blocks in given]


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_conversation_comes_back_as_plain_messages_of_a_provider(name: str) -> None:
    for reader, lines in SESSIONS:
        expected = whole(reader.spoken(lines))
        written = WRITERS[name](expected)
        read = normalised(in_neutral_terms(by_name(name).read(written)), LossReport(), closings={})
        assert faults(read) == []
        if name == "anthropic":
            assert _bare(read) == _bare(expected)
        calls = [one.id for message in expected for one in message.blocks if isinstance(one, Call)]
        assert [one.id for message in read for one in message.blocks if isinstance(one, Call)] == calls


def test_a_conversation_without_a_beginning_gets_one() -> None:
    said_first = [Message(role="assistant", blocks=(Text(text="done"),), index=0)]
    made: Converted = convert(said_first, CODEX_DIALECT, at_us=AT)
    assert made.messages[0].blocks == (Text(text=NO_BEGINNING),)
    assert convert(said_first, CODEX_DIALECT, at_us=AT, first="the task").messages[0].blocks == (Text(text="the task"),)


def _bare(messages: Sequence[Message]) -> list[Message]:
    return [
        msgspec.structs.replace(
            message,
            index=0,
            blocks=tuple(
                msgspec.structs.replace(one, synthetic=False) if isinstance(one, Result) else one
                for one in message.blocks
            ),
        )
        for message in messages
    ]


def _has_directory(messages: Sequence[Message]) -> bool:
    calls = (one for message in messages for one in message.blocks if isinstance(one, Call))
    return any("dir" in call.arguments for call in calls if call.op == "shell")


def _in_directory(message: Message) -> Message:
    def moved(block: Block) -> Block:
        if not isinstance(block, Call) or not isinstance(block.arguments, dict) or "dir" not in block.arguments:
            return block
        command = f"cd {block.arguments['dir']} && {block.arguments['cmd']}"
        return msgspec.structs.replace(block, arguments={"cmd": command})

    return msgspec.structs.replace(message, blocks=tuple(map(moved, message.blocks)))


def test_the_summary_of_a_compaction_is_carried_over() -> None:
    made = ClaudeLines()
    made.user("in short: done", isCompactSummary=True, isMeta=True)
    made.says("msg_1", "and then")
    rollout = [
        codex_meta(),
        rollout_line(1, "compacted", {"message": "in short: done"}),
        said(2, "assistant", "and then"),
    ]
    for reader, lines in ((CLAUDE_DIALECT, made.lines), (CODEX_DIALECT, rollout)):
        converted = convert(reader.spoken(lines), CODEX_DIALECT, at_us=AT)
        assert converted.messages[0] == Message(role="user", blocks=(Text(text="in short: done"),), index=0)
        assert converted.losses == []
