"""`relight.loop`: the loop of model and tools, ready made, that a crash at any line continues.

    calls left open  ->  model  ->  commit its reply with its usage  ->  its calls  ->  ...  ->  verdict

What a crash left open comes first. A reply is committed with what it cost, so nothing is paid twice but the one reply
that was under way. Ends `completed` with the model's last text, `halted` on a loop or at the turn limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, Final, Literal

from relight.engine.effects import note_tools, run_tool
from relight.engine.program import Execute, Pause, Program
from relight.engine.session import Reply, Session, driven
from relight.engine.tools import Tool, Tools, toolbox
from relight.errors import UsageError, Waiting
from relight.journal.looping import repeated
from relight.journal.said import spoken_text
from relight.model.policy import LoopGuard, Retry
from relight.model.status import StatusChange
from relight.model.step import Changes
from relight.model.usage import Usage
from relight.model.view import Text

Model = Callable[[list[dict[str, Any]]], dict[str, Any] | list[dict[str, Any]] | Reply]

_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_TRANSIENT_NAMES: Final = frozenset(
    {
        "APIConnectionError",
        "APITimeoutError",
        "RateLimitError",
        "InternalServerError",
        "OverloadedError",
        "ServiceUnavailableError",
        "DeadlineExceededError",
        "ReadTimeout",
        "ConnectTimeout",
        "ConnectError",
        "RemoteProtocolError",
    }
)


def loop_program(
    s: Session,
    *,
    model: Callable[..., Any],
    tools: Tools | None = None,
    prompt: str | None = None,
    max_turns: int = 200,
    in_doubt: Literal["tell", "wait"] = "tell",
    retry: Retry | None = None,
    guard: LoopGuard | None = None,
) -> Program[Any]:
    """Run until the model has nothing more to call; the session's result. A finished session returns at once."""
    if in_doubt not in ("tell", "wait"):
        raise UsageError(f'in_doubt is "tell" or "wait", not {in_doubt!a}')
    s._refuse_coroutine(model, "the model")
    if s.is_finished and not _goes_on(s, prompt):
        return s.result
    box = toolbox(tools)
    if prompt is not None and s.is_new:
        s.append(s._recorder.fold.format.user(prompt))
    note_tools(s, box)
    repeats = (guard or LoopGuard()).repeats
    for turn in range(_turns_since_prompt(s), max_turns + 1):
        yield from _close_open_calls(s, box, in_doubt)
        if (last := _last_reply(s)) and not s.pending_calls():
            s.complete(spoken_text(s._recorder.fold.format, last) or None)
            return s.result
        if (why := repeated(s._recorder.fold, since=s.resumed_from or 0, repeats=repeats)) is not None:
            s.halt(why)
            return s.result
        if turn < max_turns:
            s.append(*_parts((yield from _ask(s, model, retry or Retry()))))
    s.halt(f"the turn limit of {max_turns} is reached")
    return s.result


loop = driven(loop_program, name="loop")


def _last_reply(s: Session) -> list[dict[str, Any]]:
    """The reply that ends the conversation, just given or left by a crash before the verdict. Empty: more follows."""
    return list(takewhile(s._recorder.fold.format.is_assistant, reversed(s.messages)))[::-1]


def _turns_since_prompt(s: Session) -> int:
    """Replies since the user last spoke, over all attempts, so that a crash does not give a loop new turns."""
    format = s._recorder.fold.format
    replies = 0
    for message in reversed(s.messages):
        if format.is_assistant(message):
            replies += 1
        elif not format.answers(message):
            break
    return replies


def _goes_on(s: Session, prompt: str | None) -> bool:
    """A finished session goes on only with a prompt it has not been given before."""
    if prompt is None or _was_said(s, prompt):
        return False
    s._reopen()
    s.append(s._recorder.fold.format.user(prompt))
    return True


def _was_said(s: Session, prompt: str) -> bool:
    views = s._recorder.fold.format.read(s.messages)
    return any(
        isinstance(block, Text) and block.text == prompt
        for view in views
        if view.role == "user"
        for block in view.blocks
    )


def _close_open_calls(s: Session, box: Mapping[str, Tool], in_doubt: str) -> Program[None]:
    calls = s.pending_calls()
    doubtful = [call for call in calls if call.in_doubt and call.effect == "once"]
    if doubtful and in_doubt == "wait":
        names = ", ".join(f"{call.name} ({call.id})" for call in doubtful)
        reason = f"in doubt: {names}"
        s._record("status", Changes(status=StatusChange(status="waiting", reason=reason)), release=True)
        raise Waiting(s.name or s.id, f"did {names} take effect?")
    for call in calls:
        yield from run_tool(s, call, box)


def _ask(s: Session, model: Callable[..., Any], retry: Retry) -> Program[Any]:
    """One reply, trying again what is worth trying again."""
    for failures in range(1, retry.attempts + 1):
        try:
            return (yield Execute(model, partial(model, s.messages)))
        except Exception as error:
            if failures == retry.attempts or not is_transient(error):
                raise
            yield Pause(s._backoff_seconds(retry, failures))
    raise AssertionError("unreachable: the last failure is raised")


def is_transient(error: BaseException) -> bool:
    """Would the same request have a chance later? By status code, by the providers' class names, by type."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def _parts(reply: Any) -> tuple[list[dict[str, Any]], Usage | Mapping[str, Any] | None]:
    usage = None
    if isinstance(reply, Reply):
        reply, usage = reply.messages, reply.usage
    return ([reply] if isinstance(reply, dict) else list(reply)), usage
