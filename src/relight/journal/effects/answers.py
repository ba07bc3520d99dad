"""How a waiting session is answered: with text, an approval, a settled call, or only by its own program.

Every entry point asks here before it offers to answer, so that no answer is stored where no program reads it.
"""

from __future__ import annotations

from typing import Final, Literal

Answers = Literal["words", "approval", "settling", "program"]
"""how a waiting session continues: `relight send`, `approve` or `deny`, `settle`, or only through its own program"""

PROGRAMS: Final[dict[str, str]] = {
    "langgraph": "invoke the graph on its thread again; an interrupt is answered with Command(resume=...)",
    "claude-agent-sdk": "give it to the client in your program",
    "cursor": "send it with the SDK in your program",
}
"""frameworks that store the conversation in their own form and do not read answers from the journal"""


def answered_by(
    agent: str | None, question: str | None, *, approval: bool, has_command: bool, open_calls: int
) -> Answers:
    """How a waiting session is answered; `approval`: its question is about a tool call it wants to make."""
    if agent in PROGRAMS and not has_command:
        return "program"
    if question is None:
        return "settling" if open_calls else "program"
    return "approval" if approval else "words"


def no_words_for(
    agent: str | None, status: str, question: str | None, *, has_command: bool, open_calls: int
) -> tuple[str, str] | None:
    """Why a text sent to the session would not be read, and what to do instead; None if it would be."""
    if agent in PROGRAMS and not has_command:
        return f"{agent} stores its own conversation and does not read messages from relight", PROGRAMS[agent]
    if status != "waiting" or question is not None:
        return None
    if open_calls:
        return (
            f"it waits for a decision about {open_calls} calls whose outcome is unknown, not for a message",
            "settle each call: record its result, or let it run again",
        )
    return "it waits for something that only its own program can provide", "answer in your program"
