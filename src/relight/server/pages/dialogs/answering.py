"""Dialogs that answer a session: approve, deny, send, settle. Each says what follows, and can start it again."""

from __future__ import annotations

import json
import shlex
from typing import Any, Final

import msgspec

from relight.errors import Corrupt
from relight.journal.after_answer import after_answer, continuation_text
from relight.journal.conversation.last_reply import reply_text
from relight.journal.effects.approvals import as_asked, is_about
from relight.journal.formats.registry import detect
from relight.server.pages.dialogs.values import Dialog, DialogContext, Field, Option
from relight.text import format as words
from relight.text.safe import shortened
from relight.values.call import Call
from relight.values.status import LIVE

_MAX_INPUT: Final = 100_000
"""characters of a call's input in the dialog; longer input is cut, and the dialog says so"""
_MAX_REASON: Final = 2000
_BEFORE: Final = 4
"""messages before the call in which the agent's reason is looked for"""


def approve(context: DialogContext) -> Dialog:
    """Allow the call that the session waits for."""
    return _decision(context, allow=True)


def deny(context: DialogContext) -> Dialog:
    """Refuse the call that the session waits for."""
    return _decision(context, allow=False)


def _decision(context: DialogContext, *, allow: bool) -> Dialog:
    verb, label = ("approve", "Approve") if allow else ("deny", "Refuse")
    info = context.info
    made = Dialog(
        title=f"{label} in {context.name}",
        confirm=label,
        happens="Allow the call below, once." if allow else "Refuse the call below; the agent is informed.",
        kept="The decision is recorded in the journal, with who made it.",
        back="It cannot be undone once the call ran." if allow else "The agent may ask again.",
        command=shlex.join(["relight", verb, words.ref(info)]),
        path=f"/api/sessions/{info.id}/{verb}",
        plan=context.rl.runs.plan_hash(info.id),
        exact=as_asked(info.question),
        why_not="" if info.status == "waiting" else "it is no longer waiting for a decision",
        done=f"{'approved' if allow else 'refused'} in {context.name}",
        fields=[] if allow else [Field(kind="line", name="why", label="Reason (optional, the agent reads it)")],
    )
    return _with_call(_going_on(context, made), context) if info.status == "waiting" else made


def _with_call(made: Dialog, context: DialogContext) -> Dialog:
    """The dialog with all that is known about the call: its whole input, where it runs, and what the agent said."""
    info = context.info
    lines = [("directory", words.display_path(words.working_directory(info)), "")]
    try:
        loaded = context.rl.history.load(info.id)
    except Corrupt:
        return msgspec.structs.replace(made, lines=lines)
    call = next((one for one in reversed(loaded.calls) if is_about(info.question or "", one.id)), None)
    reason = _reason(loaded.messages, info.provider, call)
    lines += [("the agent says", shortened(reason, _MAX_REASON), "")] if reason else []
    if call is None:
        return msgspec.structs.replace(made, lines=lines)
    lines.insert(0, ("call", f"{call.name} ({call.id})", ""))
    return msgspec.structs.replace(made, lines=lines, exact=_whole(call.arguments))


def _whole(arguments: Any) -> str:
    """The input of a call as JSON, with line breaks of texts as line breaks; cut only beyond the bound."""
    if isinstance(arguments, dict) and all(isinstance(value, str) for value in arguments.values()):
        text = "\n\n".join(f"{name}:\n{value}" for name, value in arguments.items())
    else:
        text = json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    if len(text) > _MAX_INPUT:
        text = f"{text[:_MAX_INPUT]}\n… CUT HERE: the input has {len(text):,} characters"
    return text


def _reason(messages: list[dict[str, Any]], provider: str | None, call: Call | None) -> str:
    """What the agent wrote with the call, or last before it."""
    format = detect(messages, provider)
    places = [index for index, one in enumerate(messages) if call and any(s.id == call.id for s in format.calls(one))]
    end = places[-1] + 1 if places else len(messages)
    for number in range(end - 1, max(-1, end - 1 - _BEFORE), -1):
        if text := reply_text(format, [messages[number]]).strip():
            return text
    return ""


def _going_on(context: DialogContext, made: Dialog) -> Dialog:
    """The dialog with what follows: a box that starts the session, if relight can; else a sentence."""
    how = after_answer(context.info)
    if how != "start":
        return msgspec.structs.replace(made, happens=f"{made.happens} {continuation_text(how, context.info)}")
    box = Field(kind="box", name="resume", label=f"and start {context.name} again", on=True)
    return msgspec.structs.replace(
        made,
        confirm=f"{made.confirm} and continue",
        plain=made.confirm,
        command=f"{made.command} && relight resume {shlex.quote(words.ref(context.info))} --detach",
        fields=[*made.fields, box],
    )


def send(context: DialogContext) -> Dialog:
    """Answer a waiting session, or send the next prompt."""
    info = context.info
    waiting = info.status == "waiting"
    made = Dialog(
        title=f"{'Answer' if waiting else 'Send to'} {context.name}",
        confirm="Answer" if waiting else "Send",
        happens="Send this answer to the agent."
        if waiting
        else "Send this as the next prompt, or type it to a running agent.",
        kept="Question and answer are both recorded in the journal."
        if waiting
        else "Every step; what is sent is recorded in the journal.",
        back="A later rewind can remove it from the model's view.",
        command=f"relight send {shlex.quote(words.ref(info))} TEXT",
        path=f"/api/sessions/{info.id}/send",
        # What is typed to a running agent is for whatever it does then; anything else is for the state that is shown.
        plan="" if info.status in LIVE else context.rl.runs.plan_hash(info.id),
        exact=info.question or "" if waiting else "",
        fields=[_answer(context, waiting=waiting)],
        why_not="it is archived" if info.status == "archived" else words.send_refusal(info),
        done=f"{'answered' if waiting else 'sent to'} {context.name}",
    )
    return made if made.why_not else _going_on(context, made)


def _answer(context: DialogContext, *, waiting: bool) -> Field:
    """The input for the answer: text, or one of the question's choices."""
    asking = context.info.asking if waiting else None
    if asking is None or not asking.choices:
        return Field(kind="text", name="text", label="Answer" if waiting else "Text", required=True)
    options = [Option(value=one, label=one) for one in asking.choices]
    return Field(kind="radio", name="text", label="Answer", options=options, required=True)


def settle(context: DialogContext) -> Dialog:
    """Decide one call in doubt; the first one if the address names none."""
    wanted = context.given.get("call", "")
    doubts = [one for one in context.rl.history.load(context.info.id).calls if one.in_doubt]
    call = next((one for one in doubts if one.id == wanted or not wanted), None)
    if call is None:
        return Dialog(
            title=f"Settle a call of {context.name}",
            confirm="Settle",
            happens="Enter the result of a call that is in doubt.",
            kept="Nothing is changed yet.",
            back="See the tool calls of the session.",
            command=shlex.join(["relight", "can-resume", words.ref(context.info)]),
            path=f"/api/sessions/{context.info.id}/settle",
            why_not="this call is no longer in doubt" if wanted else "no call is in doubt any more",
        )
    more = f" {len(doubts) - 1} more are in doubt." if len(doubts) > 1 else ""
    made = Dialog(
        title=f"Settle {call.name} of {context.name}",
        confirm="Settle",
        happens=f"{call.name} began at @{call.intent_seq} and is not known to have ended. Enter its result, or let it"
        f" run again when the session continues.{more}",
        kept="Your text is recorded as its result, marked as written by a person.",
        back="To undo it, rewind to before the call; its effects outside stay.",
        command=shlex.join(["relight", "settle", words.ref(context.info), call.id]),
        path=f"/api/sessions/{context.info.id}/settle",
        plan=context.rl.runs.plan_hash(context.info.id),
        body={"call": call.id},
        fields=[
            Field(kind="box", name="retry", label="it had no effect: run it again"),
            Field(
                kind="text", name="result", label="Its result, as the model will read it", required=True, unless="retry"
            ),
        ],
        exact=shortened(json.dumps(call.arguments, indent=2, ensure_ascii=False, default=str), 4000),
        done=f"settled in {context.name}",
    )
    return made if len(doubts) > 1 else _going_on(context, made)
