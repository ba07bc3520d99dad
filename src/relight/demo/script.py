"""The scripted model: a pure function from a conversation to the next reply, in Anthropic's Messages format.

It has no state. The reply depends on the last call in the conversation and its result, as with a real model: after a
mail whose outcome is unknown it checks the outbox before it sends again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.demo.shop import FIX, PLACE

PROMPT: Final = "The cart's tests fail. Fix it, then tell the team."
NO_MAIL: Final = "no mail found"
SUBJECT: Final = "fixed"
MAX_MAILS: Final = 9
"""attempts to send, each after an empty outbox; then it gives up"""

Message = dict[str, Any]
Call = tuple[str, dict[str, Any]]


def reply(messages: Sequence[Message]) -> Message:
    """The next message of the scripted model."""
    text, calls = _next(messages)
    turn = turns(messages) + 1
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    content += [
        {"type": "tool_use", "id": f"call_{turn}_{number}", "name": name, "input": arguments}
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return {"role": "assistant", "content": content}


def turns(messages: Sequence[Message]) -> int:
    """Number of replies of the model so far."""
    return sum(message["role"] == "assistant" for message in messages)


def rounds(messages: Sequence[Message]) -> list[tuple[str, list[tuple[str, Any, str]]]]:
    """The conversation without ids: for each reply its text and its calls as (name, arguments, result)."""
    results = {
        block["tool_use_id"]: str(block["content"])
        for message in messages
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    return [
        (
            " ".join(block["text"] for block in message["content"] if block["type"] == "text"),
            [
                (block["name"], block["input"], results.get(block["id"], ""))
                for block in message["content"]
                if block["type"] == "tool_use"
            ],
        )
        for message in messages
        if message["role"] == "assistant"
    ]


def _next(messages: Sequence[Message]) -> tuple[str, list[Call]]:
    replies = rounds(messages)
    if not replies:
        read: list[Call] = [("read_file", {"path": "test_cart.py"}), ("read_file", {"path": "cart.py"})]
        return "I will look at the failing test.", read
    if not replies[-1][1]:
        return "I have said all I had to say.", []  # not reached: the loop ends after a reply without calls
    name, _, result = replies[-1][1][-1]
    if name == "read_file":
        edit = {"path": "cart.py", "old": PLACE, "new": FIX + PLACE}
        return "The total ignores the discount.", [("edit_file", edit)]
    if name == "edit_file":
        return "Now the tests.", [("run_tests", {})]
    if name == "run_tests":
        return _after_tests(result)
    if name == "send_mail":
        return "I will see whether it went out.", [("check_outbox", {})]
    return _after_outbox(result, sum(call[0] == "send_mail" for _, calls in replies for call in calls))


def _after_tests(result: str) -> tuple[str, list[Call]]:
    if "failed" in result:
        return "The tests still fail. I stop here.", []
    return "All green. I will tell the team.", [_mail()]


def _after_outbox(result: str, sent: int) -> tuple[str, list[Call]]:
    if result != NO_MAIL:
        return "It went out. Done.", []
    if sent >= MAX_MAILS:
        return "The mail does not go out. I stop here.", []
    return "It did not go out. I will send it now.", [_mail()]


def _mail() -> Call:
    return "send_mail", {"to": "team", "subject": SUBJECT}
