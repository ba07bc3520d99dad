"""Transcripts in the shape that agents write them, made up line by line."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from relight.agents.gemini.records import lines_of, resolved

Line = dict[str, Any]
AT = "2026-11-15T08:00:00.000Z"
CLAUDE_SESSION = "11111111-1111-4111-8111-111111111111"
CODEX_SESSION = "01a1de6e-0fc9-7b73-97b7-868570f5697e"


class ClaudeLines:
    """Grows a transcript of Claude Code; each method adds a line and returns its uuid."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.last: str | None = None

    def add(self, kind: str, *, parent: str | None = "", **fields: Any) -> str:
        """`parent` is the last line unless it is given."""
        name = str(uuid5(NAMESPACE_OID, f"line {len(self.lines)}"))
        self.lines.append(
            {
                "parentUuid": self.last if parent == "" else parent,
                "isSidechain": False,
                "type": kind,
                "uuid": name,
                "timestamp": AT,
                "cwd": "/old",
                "sessionId": CLAUDE_SESSION,
                "version": "2.1.325",
                **fields,
            }
        )
        self.last = name
        return name

    def user(self, text: str, **more: Any) -> str:
        return self.add("user", message={"role": "user", "content": text}, **more)

    def block(self, reply: str, block: Line, *, stop: str = "tool_use", output: int = 7, **more: Any) -> str:
        usage = {"input_tokens": 100, "output_tokens": output, "cache_read_input_tokens": 30}
        message = {"id": reply, "role": "assistant", "model": "m", "content": [block], "stop_reason": stop}
        return self.add("assistant", message={**message, "usage": usage}, **more)

    def call(self, reply: str, name: str, **more: Any) -> str:
        block = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}
        return self.block(reply, block, **more)

    def result(self, name: str, call: str, **more: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": name, "content": f"out of {name}", "is_error": False}
        message = {"role": "user", "content": [block]}
        return self.add("user", message=message, parent=call, sourceToolAssistantUUID=call, **more)

    def says(self, reply: str, text: str, **more: Any) -> str:
        return self.block(reply, {"type": "text", "text": text}, stop="end_turn", **more)


def claude_conversation() -> list[Line]:
    """A prompt, an attachment, thinking, two calls whose results come in the other order, an end."""
    made = ClaudeLines()
    made.user("do it é")
    made.add("attachment", attachment={"type": "date", "date": "2026-11-15"})
    made.block("msg_1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    made.block("msg_1", {"type": "text", "text": "look"})
    one = made.call("msg_1", "toolu_1")
    two = made.call("msg_1", "toolu_2")
    made.result("toolu_2", two)
    made.result("toolu_1", one)
    made.says("msg_2", "all done")
    return made.lines


def rollout_line(ordinal: int, kind: str, payload: Line) -> Line:
    return {"timestamp": AT, "ordinal": ordinal, "type": kind, "payload": payload}


def item(ordinal: int, kind: str, **fields: Any) -> Line:
    return rollout_line(ordinal, "response_item", {"type": kind, **fields})


def said(ordinal: int, role: str, text: str) -> Line:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return item(ordinal, "message", id=f"msg_{ordinal}", role=role, content=[part])


def function_call(ordinal: int, name: str) -> Line:
    return item(ordinal, "function_call", name="exec_command", arguments='{"cmd": "x"}', call_id=name)


def function_output(ordinal: int, name: str) -> Line:
    return item(ordinal, "function_call_output", call_id=name, output=f"out of {name}")


def tokens(ordinal: int, total: int, output: int = 1) -> Line:
    usage = {"input_tokens": total, "cached_input_tokens": 10, "output_tokens": output, "total_tokens": total + output}
    return rollout_line(ordinal, "event_msg", {"type": "token_count", "info": {"total_token_usage": usage}})


def codex_meta(**more: Any) -> Line:
    payload = {
        "id": CODEX_SESSION,
        "timestamp": AT,
        "cwd": "/old",
        "originator": "codex_exec",
        "cli_version": "0.166.0",
    }
    return rollout_line(0, "session_meta", {**payload, "model_provider": "fake", "history_mode": "paginated", **more})


def codex_conversation() -> list[Line]:
    """A prompt, reasoning, two calls and their results, a count of tokens, an end."""
    return [
        codex_meta(),
        rollout_line(1, "turn_context", {"turn_id": "t", "model": "m", "cwd": "/old"}),
        said(2, "user", "do it é"),
        item(3, "reasoning", id="rs_1", summary=[], encrypted_content="b3BhcXVl"),
        function_call(4, "call_1"),
        function_call(5, "call_2"),
        function_output(6, "call_1"),
        function_output(7, "call_2"),
        tokens(8, 110),
        said(9, "assistant", "all done"),
        rollout_line(10, "event_msg", {"type": "task_complete", "turn_id": "t"}),
    ]


def pi_conversation() -> list[dict[str, Any]]:
    """Lines of pi after its header: settings, a prompt, a reply with two calls, their results, a last word."""
    at, model = "2026-11-16T12:30:37.000Z", {"api": "openai-completions", "provider": "fake", "model": "fake-model"}
    calls = [
        {"type": "toolCall", "id": f"call_{name}", "name": "bash", "arguments": {"command": f"echo {name}"}}
        for name in ("one", "two")
    ]
    usage = {"input": 100, "output": 10, "cacheRead": 5, "cacheWrite": 1, "totalTokens": 116, "cost": {"total": 0.25}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "do it é"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "two things"}, *calls],
            **model,
            "usage": usage,
            "stopReason": "toolUse",
        },
        *(
            {
                "role": "toolResult",
                "toolCallId": f"call_{name}",
                "toolName": "bash",
                "content": [{"type": "text", "text": f"{name}\n"}],
                "isError": name == "two",
            }
            for name in ("one", "two")
        ),
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "all done"}],
            **model,
            "usage": usage,
            "stopReason": "stop",
        },
    ]
    lines: list[dict[str, Any]] = [
        {"type": "model_change", "provider": "fake", "modelId": "fake-model"},
        *({"type": "message", "message": one} for one in said),
    ]
    names = [f"{number:08x}" for number in range(len(lines))]
    parents = [None, *names[:-1]]
    return [
        {**line, "id": name, "parentId": parent, "timestamp": at}
        for line, name, parent in zip(lines, names, parents, strict=True)
    ]


def opencode_conversation() -> list[dict[str, Any]]:
    """Lines made of opencode's rows: a prompt, a reply with two calls, their results, a last word."""
    user = {"role": "user", "agent": "build", "model": {"providerID": "fake", "modelID": "fake-model"}}
    reply = {"role": "assistant", "agent": "build", "modelID": "fake-model", "providerID": "fake"}
    made: list[dict[str, Any]] = []

    def add(kind: str, message: int, data: dict[str, Any], part: int | None = None) -> None:
        number = len(made) if part is None else part
        held = {**(reply if message else user), "time": {"created": 1000 + message}}
        held |= {"parentID": f"msg_{1:012x}{'A' * 14}", "path": {"cwd": "/x", "root": "/"}} if message else {}
        place = {"id": f"prt_{number + 1:012x}{'A' * 14}", "created": 1000 + number, "data": data}
        made.append(
            {"opencode": kind, "message": {"id": f"msg_{message + 1:012x}{'A' * 14}", "data": held}, "part": place}
        )

    def tool(name: str, **state: Any) -> dict[str, Any]:
        given = {"input": {"command": f"echo {name}"}, "time": {"start": 1003, "end": 1009}, **state}
        return {"type": "tool", "tool": "bash", "callID": f"call_{name}", "state": given}

    tokens = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 5, "write": 0}}
    add("part", 0, {"type": "text", "text": '"do it é"'})
    add("part", 1, {"type": "text", "text": "two things", "time": {"start": 1001, "end": 1002}})
    add("call", 1, tool("one", status="running"))
    add("call", 1, tool("two", status="running"))
    add("result", 1, tool("one", status="completed", output="one\n"), 2)
    add("result", 1, tool("two", status="error", error="two failed"), 3)
    add("part", 1, {"type": "step-finish", "reason": "tool-calls", "tokens": tokens, "cost": 0.25})
    add("part", 2, {"type": "text", "text": "all done", "time": {"start": 1010, "end": 1011}})
    add("part", 2, {"type": "step-finish", "reason": "stop", "tokens": tokens, "cost": 0.25})
    return made


def gemini_records() -> list[Line]:
    """A session file of Gemini CLI: its header and context, a prompt, a reply written again with its two calls and
    their results, those results once more, an end."""
    at, model, reply = "2026-11-16T15:47:25.267Z", {"model": "gemini-2.5-pro"}, "e94fac85-caac-43cc-a5cb-83b87579143c"
    context = {"id": "d04923d3", "timestamp": at, "type": "user", "content": [{"text": "<session_context>\nhi"}]}
    said: Line = {"id": reply, "timestamp": at, "type": "gemini", "content": "two things", "thoughts": [], **model}
    said["tokens"] = {"input": 100, "output": 10, "cached": 30, "thoughts": 5, "tool": 0, "total": 115}
    answers: list[Line] = [
        {"functionResponse": {"id": f"shell_{name}", "name": "run_shell_command", "response": {"output": name}}}
        for name in ("one", "two")
    ]
    calls = [
        {
            "id": answer["functionResponse"]["id"],
            "name": "run_shell_command",
            "args": {"command": f"echo {answer['functionResponse']['response']['output']}"},
            "result": [answer],
            "status": "success",
        }
        for answer in answers
    ]
    return [
        {"sessionId": CLAUDE_SESSION, "projectHash": "00", "startTime": at, "lastUpdated": at, "kind": "main"},
        {"$set": {"messages": [context], "lastUpdated": at}},
        {"id": "ac17bd2f", "timestamp": at, "type": "user", "content": [{"text": "do it é"}]},
        {"$set": {"lastUpdated": at}},
        said,
        {**said, "toolCalls": calls},
        {"id": "05b231ca", "timestamp": at, "type": "user", "content": answers},
        {"id": "d5a5dd5c", "timestamp": at, "type": "gemini", "content": "all done", "thoughts": [], **model},
    ]


def gemini_conversation() -> list[Line]:
    """The lines of these records."""
    return lines_of(resolved(gemini_records()))
