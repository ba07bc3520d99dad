"""Who answers what a session waits with: a person's words, a decision, a settled call, or its own program.

Pure. Every door asks here before it offers to answer, so that no answer goes where nobody reads it.
"""

from __future__ import annotations

from typing import Final, Literal

Answers = Literal["words", "approval", "settling", "program"]
"""how a waiting session goes on: `relight send`, `approve` or `deny`, `settle`, or only its own program can"""

PROGRAMS: Final[dict[str, str]] = {
    "langgraph": "invoke the graph on its thread again; an interrupt is answered with Command(resume=...)",
    "claude-agent-sdk": "give it to the client in your program",
    "cursor": "send it with the SDK in your program",
}
"""frameworks that keep the conversation in a form of their own, and read nothing that is put beside it"""


def answered_by(
    agent: str | None, question: str | None, *, approval: bool, has_command: bool, open_calls: int
) -> Answers:
    """Of a session that waits; `approval`: its question is about a tool call that it wants to make."""
    if agent in PROGRAMS and not has_command:
        return "program"
    if question is None:
        return "settling" if open_calls else "program"
    return "approval" if approval else "words"


def no_words_for(
    agent: str | None, status: str, question: str | None, *, has_command: bool, open_calls: int
) -> tuple[str, str] | None:
    """Why a person's words would reach nobody, and what to do instead; None where they are read."""
    if agent in PROGRAMS and not has_command:
        return f"{agent} keeps its own conversation, and reads nothing that is written beside it", PROGRAMS[agent]
    if status != "waiting" or question is not None:
        return None
    if open_calls:
        return (
            f"it waits because nobody knows whether {open_calls} of its calls took effect, not for words",
            "settle each call: say what became of it, or let it run again",
        )
    return "what it waits for is its program's own, and read by nobody else", "answer in your program"
