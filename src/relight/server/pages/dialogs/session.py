"""The confirmation dialog of each action: what happens, what is kept, how to undo it, and the same as a command.

A dialog holds the API path, the request body, and the plan hash of what it displays, so that nothing is done if the
session has changed meanwhile. Without scripts it is a page that shows the command.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from relight.errors import NotFound, NotResumable, RelightError, UsageError
from relight.history.documents import path_text
from relight.history.loading import resolve
from relight.journal.conversation.edited_message import text_of_message
from relight.journal.files.undo_log import next_undo
from relight.server.pages.checkpoint import effects_line
from relight.server.pages.dialogs import answering
from relight.server.pages.dialogs.values import (
    Dialog,
    DialogContext,
    Field,
    Option,
    again_fields,
    call_rows,
    open_calls,
)
from relight.text import format as words
from relight.text.facts import plan_facts
from relight.values.info import ResumePlan, SessionInfo
from relight.values.options import ResumeOptions
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.library.facade import Relight

_MAX_BOXES: Final = 500
_WAIVED: Final = ("workspace_missing", "secrets_missing")
"""reasons against a resume that an option of the dialog removes"""
_RAISED: Final = {
    "budget_reached": Field(
        kind="number", name="budget", label="A higher budget, in US dollars, with what it has spent", required=True
    ),
    "budget_tokens_reached": Field(
        kind="number", name="budget_tokens", label="More tokens, with those it has used", required=True
    ),
    "time_limit_reached": Field(
        kind="number", name="time_limit", label="More seconds of work, with those it has worked", required=True
    ),
    "no_price": Field(
        kind="number", name="budget_tokens", label="A limit of tokens instead of the budget in money", required=True
    ),
}
"""reasons against a resume that a higher limit removes, and the field to enter it"""


def dialog(
    rl: Relight, info: SessionInfo, verb: str, *, seq: int | None, given: Mapping[str, str], now: datetime
) -> Dialog:
    """The dialog of an action. NotFound for an unknown verb."""
    make = _VERBS.get(verb)
    if make is None:
        raise NotFound(verb[:50], what="action")
    return make(DialogContext(rl=rl, info=info, seq=seq, given=given, now=now))


def _resume(context: DialogContext) -> Dialog:
    good = context.given.get("from") == "good"
    handed = context.given.get("agent") or None
    plan, refused = _planned(context, handed)
    agent = plan.agent.agent if plan.agent is not None else "its program"
    rung = f" with {agent}'s own resume" if plan.agent is not None and plan.agent.rung == "native" else ""
    blocking = [reason for reason in plan.reasons if reason.blocks and not (good and reason.code == "corrupt")]
    missing, unset = (any(reason.code == code for reason in blocking) for code in _WAIVED)
    notes = [one.text for one in plan.reasons if not one.blocks or one.code in _WAIVED]
    raised = [_RAISED[reason.code] for reason in blocking if reason.code in _RAISED]
    notes += [one.text for one in blocking if one.code in _RAISED]
    blocking = [reason for reason in blocking if reason.code not in (*_WAIVED, *_RAISED)]
    start = (
        f"Start attempt {context.info.attempt + 1} of {context.name} from @{plan.checkpoint.rpartition('@')[2]}{rung}."
    )
    if plan.forks:
        start = f"Make a new session from {context.ref} and start it{rung}; {context.name} stays as it is."
    if plan.hand_over is not None:
        start += f" The conversation is handed over from {plan.hand_over.source} to {plan.hand_over.target}."
    flags = [
        *(["--agent", handed] if handed else []),
        *(["--from-last-good"] if good else []),
        *(["--restore"] if missing else []),
    ]
    flags += ["--without-secrets"] if unset else []
    flags += [word for one in raised for word in (f"--{one.name.replace('_', '-')}", "N")]
    limited = any(reason.code == "usage_limit" for reason in plan.reasons)
    no_command = "" if plan.command else "relight does not know how to start it: run your program again"
    why_not = refused or (blocking[0].text if blocking else no_command)
    notes = [one for one in notes if one != why_not]
    return Dialog(
        title=f"Resume {context.ref}",
        confirm="Resume",
        happens=start,
        kept="No finished step runs again; nothing recorded is deleted.",
        back="Stop it at any time; it can be resumed again.",
        command=shlex.join(["relight", "resume", context.ref, *flags]),
        path=f"{context.api}/resume",
        plan=context.plan,
        body={
            **({"agent": handed} if handed else {}),
            **({"from_last_good": True} if good else {}),
            **({"restore": True} if missing else {}),
        },
        fields=[
            *raised,
            Field(kind="text", name="prompt", label="Prompt (optional)"),
            *([Field(kind="box", name="without_secrets", label="start it although they are not set")] if unset else []),
            *([Field(kind="box", name="now", label="start it now, without waiting for the limit")] if limited else []),
            *(_fallback(context, agent) if plan.agent is not None else []),
            *_other_agents(context, agent),
        ],
        lines=plan_facts(plan, context.now) + [("" if n else "note", one, "warn") for n, one in enumerate(notes)],
        why_not=why_not,
        done=f"{context.name} runs",
        goes="/sessions/{id}" if plan.forks else "",
    )


def _planned(context: DialogContext, agent: str | None) -> tuple[ResumePlan, str]:
    """The plan of a resume by this agent; or, if that is refused, without it, and why."""
    ref = context.info.id if context.seq is None else f"{context.info.id}@{context.seq}"
    if agent is None:
        return context.rl.runs.plan(ref), ""
    try:
        if agent not in context.rl.runs.agents():  # a command line is not taken from an address
            raise UsageError(f"no coding agent {agent[:50]!r}")
        return context.rl.runs.plan(ref, options=ResumeOptions(agent=agent)), ""
    except (UsageError, NotResumable) as error:
        return context.rl.runs.plan(ref), error.message


def _other_agents(context: DialogContext, present: str) -> list[Field]:
    """Links to the same dialog for the other agents."""
    where = f"/sessions/{context.info.id}" if context.seq is None else f"/checkpoints/{context.info.id}@{context.seq}"
    options = [
        Option(value=f"{where}/do/resume?agent={name}", label=f"in {name}")
        for name in context.rl.runs.agents()
        if name != present
    ]
    return [Field(kind="boxes", name="go", label="Continue in another agent", options=options)] if options else []


def _fallback(context: DialogContext, agent: str) -> list[Field]:
    """The agents that continue after a usage limit: those it has, in their order, then the others."""
    identity = resolve(context.rl.store, context.info.id).identity
    policy, away = identity.policy, identity.away
    first = away.home if away is not None and agent == identity.agent else agent
    options = [
        Option(value=name, label=name, on=name in policy.fallback)
        for name in dict.fromkeys((*policy.fallback, *context.rl.runs.agents()))
        if name != first
    ]
    label = f"return to {first} when its limit is over"
    boxes = Field(kind="boxes", name="fallback", label="Agents that continue after a usage limit", options=options)
    return [boxes, *([] if policy.returns else [Field(kind="box", name="returns", label=label)])]


def _fork(context: DialogContext) -> Dialog:
    at = context.seq if context.seq is not None else context.info.head
    fields = [
        Field(kind="line", name="name", label="Name (optional)"),
        Field(kind="text", name="prompt", label="Prompt (optional)"),
    ]
    command = ["relight", "fork", f"{words.ref(context.info)}@{at}"]
    if context.info.workspace:
        hint = "a directory that does not exist yet; empty: one beside the original, made by its first start"
        beside = f"{next(iter(context.info.workspace.values())).rstrip('/')}-fork-{at}"
        fields.insert(
            1, Field(kind="line", name="workspace", label="Files go to a new directory", hint=hint, value=beside)
        )
        command += ["--workspace", beside]
    return Dialog(
        title=f"Fork {words.ref(context.info)}@{at}",
        confirm="Fork",
        happens=f"Make a new session from @{at}. It does not start by itself.",
        kept=f"{context.name} stays as it is.",
        back="Remove the fork; nothing else depends on it.",
        command=shlex.join(command),
        path=f"/api/sessions/{context.info.id}@{at}/fork",
        fields=fields,
        lines=call_rows(open_calls(context.rl, f"{context.info.id}@{at}", "fork")),
        done=f"forked from {context.name}@{at}",
        goes="/sessions/{id}",
    )


def _edit(context: DialogContext) -> Dialog:
    """Edit the last message or tool result of the checkpoint, in a fork."""
    at = context.seq if context.seq is not None else context.info.head
    made, trouble, text = _fork(msgspec.structs.replace(context, seq=at)), "", None
    try:
        messages = context.rl.history.load(f"{context.info.id}@{at}").messages
        text = text_of_message(messages[-1]) if messages else None
    except RelightError as error:
        trouble = error.message
    field = Field(
        kind="text", name="edit", label="The last message at this checkpoint", value=text or "", required=True
    )
    return msgspec.structs.replace(
        made,
        title=f"Edit {words.ref(context.info)}@{at}, then fork",
        confirm="Fork with this text",
        happens=f"Make a new session from @{at} whose last message has the text below. It does not start by itself.",
        kept=f"{context.name} stays as it is; calls that ran do not run again in the fork.",
        command=f"{made.command} --edit TEXT",
        fields=[field, *(one for one in made.fields if one.name != "prompt")],
        lines=[("not undone", *effects_line(context.rl, context.info, at)), *made.lines],
        why_not=trouble or ("" if text is not None else "the last message there has no text that can be edited here"),
    )


def _rewind(context: DialogContext) -> Dialog:
    info = context.info
    if context.seq is None:
        return _choose_checkpoint(context)
    gone = max(0, info.head - context.seq)
    lines = [("conversation", f"{words.count(gone, 'step')} leave the model's view (kept)" if gone else "as it is", "")]
    conflicts: list[tuple[str, str]] = []
    if info.workspace:
        text, role, conflicts = _restore_summary(context)
        lines.append(("files", text, role))
    lines.append(("not undone", *effects_line(context.rl, info, context.seq)))
    calls = open_calls(context.rl, f"{info.id}@{context.seq}", "rewind")
    lines += call_rows(calls)
    options = [
        Option(value="conversation", label="the conversation"),
        *([Option(value="files", label="the files")] if info.workspace else []),
        *([Option(value="both", label="both")] if info.workspace else []),
    ]
    flag = "--conversation|--files|--both" if info.workspace else "--conversation"
    between = f"@{context.seq + 1} to @{info.head} stay in the journal" if gone else "the journal stays as it is"
    runs = info.status in LIVE
    agent = info.agent or "its program"
    first = f"Ask {agent} to end (SIGTERM), kill it if it does not, then rewind" if runs else "Rewind"
    meanwhile = ", and so do the steps it adds until it ends" if runs else ""
    stop = f"relight stop {shlex.quote(words.ref(info))} && " if runs else ""
    return Dialog(
        title=f"{'Stop and rewind' if runs else 'Rewind'} to {context.ref}",
        confirm="Stop and rewind" if runs else "Rewind",
        happens=f"{first} {context.name} from @{info.head} to @{context.seq}.",
        kept=f"Nothing is deleted: {between}{meanwhile}.",
        back="Undo restores conversation and files." + (" Resume starts it again." if runs and info.command else ""),
        command=f"{stop}relight rewind {shlex.quote(context.ref)} {flag}",
        path=f"{context.api}/rewind",
        # A running session commits steps while the dialog is open: its plan hash would be outdated at once.
        plan="" if runs else context.plan,
        body={**({"stop": True} if runs else {}), **({"choice": "theirs"} if conflicts else {})},
        evidence=list(info.evidence) if runs else [],
        fields=[
            Field(kind="radio", name="scope", label="What to rewind?", options=options, required=True),
            *([_conflict_field(conflicts)] if conflicts else []),
            *again_fields(calls),
        ],
        lines=lines,
        undo=f"/api/sessions/{info.id}/undo",
        done=f"{context.name} was rewound to @{context.seq}",
    )


def _choose_checkpoint(context: DialogContext) -> Dialog:
    """The rewind dialog of a session without a checkpoint: offers its labelled checkpoints."""
    named = [one for one in context.rl.history.checkpoints(context.info.id) if one.label][-20:]
    options = [Option(value=f"/checkpoints/{one.id}/do/rewind", label=f"@{one.seq} “{one.label}”") for one in named]
    which = "to rewind to: one with a label, or any step in the history" if options else "in the history"
    return Dialog(
        title=f"Rewind {context.name}",
        confirm="",
        happens=f"Choose the checkpoint {which}.",
        kept="Everything: nothing is changed yet.",
        back="Cancel.",
        command=f"relight checkpoints {shlex.quote(context.ref)}",
        path="",
        fields=[Field(kind="boxes", name="go", label="Checkpoints with a label", options=options)] if options else [],
    )


def _restore_summary(context: DialogContext) -> tuple[str, str, list[tuple[str, str]]]:
    """What a restore would do to the files, its role, and the files that were changed outside the session: (path on
    disk, path as displayed)."""
    try:
        report = context.rl.files.restore(f"{context.info.id}@{context.seq}", dry_run=True)
    except RelightError as error:
        return error.message, "warn", []
    decisions = {root: plan.decision for root, plan in report.plans.items()}
    writes = sum(len(one.writes) for one in decisions.values())
    deletes = sum(len(one.deletes) for one in decisions.values())
    text = f"{writes} written, {deletes} deleted; a safety snapshot comes first"
    found = []
    for root, decision in decisions.items():
        before = "" if len(decisions) == 1 else f"{root}:"
        for one in decision.conflicts:
            path = os.path.join(context.info.workspace[root], path_text(one.path))
            found.append((path, before + one.path.decode("utf-8", "backslashreplace")))
    return text, "warn" if found else "", found


def _conflict_field(found: list[tuple[str, str]]) -> Field:
    """A box for each file that was changed outside the session: ticked, it goes back to the checkpoint. With more
    files than a dialog can list, one choice for all of them, without a default."""
    which = f"{words.count(len(found), 'file')} changed outside the session"
    if len(found) <= _MAX_BOXES:
        options = [Option(value=path, label=shown, note="changed after the last step") for path, shown in found]
        label = f"{which}: a ticked file goes back to the checkpoint, the others stay as they are on disk"
        return Field(kind="boxes", name="take", label=label, when=("files", "both"), options=options)
    return Field(
        kind="radio",
        name="choice",
        label=f"And {which}?",
        required=True,
        when=("files", "both"),
        options=[
            Option(value="theirs", label="keep them as they are on disk"),
            Option(value="ours", label="restore them too; the safety snapshot holds the present content"),
        ],
    )


def _restore(context: DialogContext) -> Dialog:
    plan: ResumePlan = context.rl.runs.plan(
        f"{context.info.id}@{context.seq}" if context.seq is not None else context.info.id
    )
    differ = (plan.files.differ if plan.files is not None else None) or []
    what = {"added": "deleted: not in the checkpoint", "changed": "overwritten", "deleted": "restored"}
    roots = context.info.workspace
    boxes = [
        Option(
            value=os.path.join(roots.get(one.root, ""), one.path),
            label=one.path if len(roots) == 1 else f"{one.root}:{one.path}",
            note=what[one.what] + (", but it was changed after the last step" if one.later else ""),
            on=not one.later,
            risky=one.later,
        )
        for one in differ[:_MAX_BOXES]
    ]
    none = "no file differs from this checkpoint" if plan.files is not None and plan.files.differ is not None else ""
    trouble = (plan.files.trouble or "") if plan.files is not None else "the session has no workspace"
    live = "it is running: stop it first" if context.info.status in LIVE else ""
    return Dialog(
        title=f"Restore files of {context.ref}",
        confirm="Restore files",
        happens=f"Restore the chosen files to {context.ref}. The conversation is not changed.",
        kept="A safety snapshot of the files on disk is taken first; what no snapshot holds is never overwritten.",
        back="Undo restores the present files, byte for byte.",
        command=shlex.join(["relight", "restore", context.ref]),
        path=f"{context.api}/restore",
        plan=context.plan,
        fields=[Field(kind="boxes", name="paths", label="Files", options=boxes, required=True)] if boxes else [],
        why_not=live or ("" if boxes else trouble or none or "the directory does not exist"),
        undo=f"/api/sessions/{context.info.id}/undo",
        done=f"files of {context.ref} restored",
    )


def _undo(context: DialogContext) -> Dialog:
    operation = next_undo(context.rl.history.operations(context.info.id))
    text = "Nothing is left to undo."
    if operation is not None:
        heads = f", head @{operation.heads[1]} → @{operation.heads[0]}" if operation.heads is not None else ""
        text = f"Undo the {operation.verb} of @{operation.id}{heads}{', files too' if operation.files else ''}."
    return Dialog(
        title=f"Undo in {context.name}",
        confirm="Undo",
        happens=text,
        kept="The journal is append-only: the operation and its undo both stay in it.",
        back="`relight undo --redo` redoes it.",
        command=shlex.join(["relight", "undo", words.ref(context.info)]),
        path=f"/api/sessions/{context.info.id}/undo",
        plan=context.rl.runs.plan_hash(context.info.id),
        why_not="" if operation is not None else "there is no rewind or restore to undo",
        done=f"undone in {context.name}",
    )


def _stop(context: DialogContext) -> Dialog:
    agent = context.info.agent or "its program"
    return Dialog(
        title=f"Stop {context.name}",
        confirm="Stop",
        happens=f"Ask {agent} to end (SIGTERM), and kill it if it does not.",
        kept=f"Saved up to @{context.info.head}.",
        back="Resume any time.",
        command=shlex.join(["relight", "stop", words.ref(context.info)]),
        path=f"/api/sessions/{context.info.id}/stop",
        evidence=list(context.info.evidence),
        why_not="" if context.info.status in LIVE else "it is not running",
        done=f"{context.name} is stopped",
    )


def _clear(context: DialogContext) -> Dialog:
    info = context.info
    owner = info.evidence[0] if info.evidence else "none"
    alive = info.status in LIVE and bool(info.evidence)
    return Dialog(
        title=f"Clear {context.name}",
        confirm="Clear",
        happens=f"Revoke the lease of its owner ({owner}). If that is alive, its next write is refused and it stops.",
        kept=f"Saved up to @{info.head}; the session becomes terminated, and can be resumed.",
        back="Resume it. Who cleared it, when and why is recorded in the journal and the audit log.",
        command=shlex.join(["relight", "clear", words.ref(info)]),
        path=f"/api/sessions/{info.id}/clear",
        evidence=list(info.evidence),
        fields=[
            Field(kind="line", name="why", label="Reason (recorded in the audit log)"),
            Field(
                kind="box",
                name="forget_native",
                label="also forget the agent's native session",
                options=[Option(value="true", label="also forget the agent's native session")],
            ),
        ],
        typed=words.ref(info) if alive else "",
        danger=True,
        why_not="" if info.evidence else "it has no owner",
        done=f"{context.name} is cleared",
    )


def _acknowledge(context: DialogContext) -> Dialog:
    info = context.info
    reason = f"{info.attention.kind.replace('_', ' ')}: {info.attention.text}" if info.attention is not None else ""
    return Dialog(
        title=f"Acknowledge {context.name}",
        confirm="Acknowledge",
        happens=f"{context.name} leaves Needs you, for everybody who looks at this store.",
        kept="The session stays as it is. A new step or another reason is shown again at once.",
        back="Withdraw it with the command and --off, or do anything to the session.",
        command=shlex.join(["relight", "acknowledge", words.ref(info)]),
        path=f"/api/sessions/{info.id}/acknowledge",
        exact=reason,
        fields=[
            Field(
                kind="number",
                name="hours",
                label="Ask again after so many hours (empty: only when something new happens)",
            )
        ],
        why_not="" if info.attention is not None else "it does not need you",
        done=f"{context.name} is acknowledged",
    )


def _archive(context: DialogContext) -> Dialog:
    return Dialog(
        title=f"Archive {context.name}",
        confirm="Archive",
        happens="It can still be read, forked and exported, but never resumed.",
        kept="All its data, until the retention policy removes it.",
        back="Fork its head to continue.",
        command=shlex.join(["relight", "archive", words.ref(context.info)]),
        path=f"/api/sessions/{context.info.id}/archive",
        plan=context.rl.runs.plan_hash(context.info.id),
        done=f"{context.name} is archived",
    )


def _remove(context: DialogContext) -> Dialog:
    info = context.info
    trouble, forks, going = "", 0, None
    try:
        going = context.rl.sessions.remove(info.id, with_forks=True, with_children=True, dry_run=True)
        forks = len(going.sessions) - 1
    except RelightError as error:
        trouble = error.message
    size = words.size(going.size_bytes + going.file_bytes) if going is not None else ""
    with_them = f" and {words.count(forks, 'fork or child', 'forks and children')} of it" if forks else ""
    steps = f", {words.count(going.steps, 'step')}, {size} only it uses" if going is not None else ""
    return Dialog(
        title=f"Remove {context.name}",
        confirm="Remove forever",
        happens=f"Delete {context.name}{with_them}{steps}.",
        kept="Nothing of it. Export it first if you may want it again.",
        back="This cannot be undone.",
        command=shlex.join(["relight", "rm", words.ref(info), *(["--with-forks", "--with-children"] if forks else [])]),
        path=f"/api/sessions/{info.id}" + ("?with_forks=true&with_children=true" if forks else ""),
        method="DELETE",
        plan=context.rl.runs.plan_hash(info.id),
        typed=words.ref(info),
        danger=True,
        why_not=trouble,
        done=f"{context.name} is removed",
        goes="/",
    )


def _export(context: DialogContext) -> Dialog:
    name = words.ref(context.info)
    return Dialog(
        title=f"Export {context.name}",
        confirm="",
        happens="One file with the session, its ancestors and its captured files, without secrets.",
        kept="The session stays as it is.",
        back="`relight import FILE` imports it, here or elsewhere.",
        command=shlex.join(["relight", "export", name, f"{name}.relight"]),
        path="",
        download=f"/api/sessions/{context.info.id}/export",
    )


def _label(context: DialogContext) -> Dialog:
    hint = "letters, digits, . _ - and single spaces; not all digits"
    return Dialog(
        title=f"Label {context.ref}",
        confirm="Label",
        happens="Label this checkpoint, to find it and return to it by name.",
        kept="The checkpoint itself is not changed.",
        back="A label that is used again moves to the other checkpoint.",
        command=f"relight label {shlex.quote(context.ref)} NAME",
        path=f"/api/checkpoints/{context.info.id}@{context.info.head if context.seq is None else context.seq}/label",
        fields=[Field(kind="line", name="label", label="Name", required=True, hint=hint)],
        done=f"{context.ref} is labelled",
    )


_VERBS: Final[dict[str, Callable[[DialogContext], Dialog]]] = {
    "resume": _resume,
    "fork": _fork,
    "edit": _edit,
    "rewind": _rewind,
    "restore": _restore,
    "undo": _undo,
    "approve": answering.approve,
    "deny": answering.deny,
    "send": answering.send,
    "stop": _stop,
    "clear": _clear,
    "acknowledge": _acknowledge,
    "archive": _archive,
    "remove": _remove,
    "export": _export,
    "label": _label,
    "settle": answering.settle,
}
VERBS: Final = tuple(_VERBS)
