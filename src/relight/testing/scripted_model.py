"""A model that answers from a script, in a provider's own form.

Which reply is due is counted in the conversation that it is shown, not in the process, so that a restarted agent gets
the same reply at the same place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

from relight.errors import UsageError
from relight.journal.formats.registry import by_name
from relight.sessions.inputs import Reply
from relight.testing.conversation import lint

Calls: TypeAlias = Mapping[str, Mapping[str, Any]]
"""tools by name, each with its arguments"""
FormName: TypeAlias = Literal["anthropic", "openai", "openai_responses"]
_INPUT_TOKENS: Final = 10
_OUTPUT_TOKENS: Final = 5


class ScriptedModel:
    """A model function whose replies are given in order. AssertionError if it is shown a conversation that a provider
    would refuse (a call without its result, a result twice or out of order), or is asked for more than the script has.

    A reply is a text, a mapping from a tool's name to its arguments, or a list of both; an exception is raised once in
    each process, before the reply behind it. Each reply reports 10 input and 5 output tokens.

        ScriptedModel([["I look.", {"read": {"path": "a"}}], ConnectionError("reset"), "Done."])
    """

    def __init__(self, replies: Iterable[object], *, form: FormName = "anthropic") -> None:
        self._format = by_name("openai_chat" if form == "openai" else form)
        self._replies: list[Sequence[str | Calls]] = []
        self._errors: dict[int, list[Exception]] = {}
        for one in replies:
            if isinstance(one, Exception):
                self._errors.setdefault(len(self._replies), []).append(one)
            else:
                self._replies.append(_parts(one))
        self.conversations: list[list[dict[str, Any]]] = []
        """the messages of each call, in this process"""

    def __repr__(self) -> str:
        return f"<ScriptedModel {len(self._replies)} replies, called {self.calls} times>"

    @property
    def calls(self) -> int:
        """How often it was called in this process."""
        return len(self.conversations)

    def __call__(self, messages: Sequence[dict[str, Any]]) -> Reply:
        self.conversations.append(deepcopy(list(messages)))
        if refused := lint(messages, self._format):
            raise AssertionError(f"the model is shown a conversation that its provider refuses: {'; '.join(refused)}")
        position = self._replies_in(messages)
        if self._errors.get(position):
            raise self._errors[position].pop(0)
        if position >= len(self._replies):
            raise AssertionError(f"the script has {len(self._replies)} replies, and the model is asked for one more")
        return self._reply(position)

    def _replies_in(self, messages: Sequence[dict[str, Any]]) -> int:
        said = [self._format.is_assistant(message) for message in messages]
        return sum(1 for is_reply, _ in groupby(said) if is_reply) if self._format.spans else sum(said)

    def _reply(self, position: int) -> Reply:
        parts = self._replies[position]
        text = "\n".join(part for part in parts if isinstance(part, str))
        asked = [
            (name, dict(arguments)) for part in parts if not isinstance(part, str) for name, arguments in part.items()
        ]
        calls = [(f"call_{position}_{nth}", name, arguments) for nth, (name, arguments) in enumerate(asked)]
        if self._format.name == "anthropic":
            return _anthropic(text, calls)
        return _responses(text, calls) if self._format.spans else _chat(text, calls)


def _parts(reply: object) -> list[str | Calls]:
    parts: list[Any] = list(reply) if isinstance(reply, list | tuple) else [reply]
    for part in parts:
        if not isinstance(part, str) and not (isinstance(part, Mapping) and all(map(_is_call, part.items()))):
            raise UsageError(
                f"a scripted reply is a text, {{tool: {{argument: value}}}}, or a list of both, not {part!r}"
            )
    return parts


def _is_call(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], Mapping)


_Calls: TypeAlias = list[tuple[str, str, dict[str, Any]]]


def _anthropic(text: str, calls: _Calls) -> Reply:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name, arguments in calls]
    usage = {"input_tokens": _INPUT_TOKENS, "output_tokens": _OUTPUT_TOKENS}
    return Reply({"role": "assistant", "content": content}, usage, "tool_use" if calls else "end_turn")


def _chat(text: str, calls: _Calls) -> Reply:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, name, arguments in calls
        ]
    usage = {"prompt_tokens": _INPUT_TOKENS, "completion_tokens": _OUTPUT_TOKENS}
    return Reply(message, usage, "tool_calls" if calls else "stop")


def _responses(text: str, calls: _Calls) -> Reply:
    said = {"type": "output_text", "text": text, "annotations": []}
    items: list[dict[str, Any]] = [{"type": "message", "role": "assistant", "content": [said]}] if text else []
    items += [
        {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(arguments)}
        for id, name, arguments in calls
    ]
    return Reply(items, {"input_tokens": _INPUT_TOKENS, "output_tokens": _OUTPUT_TOKENS}, "completed")
