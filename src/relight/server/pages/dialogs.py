"""What is asked before something is done: what happens, what is kept, how to go back, and the same as a command.

A dialog is a value: the API's address it would call, what it would send, and the hash of the plan it shows, so that
nothing is done when the state has moved meanwhile. Without scripts it is a page that teaches the command.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from relight.errors import NotFound, RelightError
from relight.journal.files.undo_log import next_undo
from relight.journal.retention import days_text
from relight.server.pages.checkpoint import effects_line
from relight.server.pages.dialog_values import Asked, Dialog, Field, Option
from relight.server.pages.open_calls import again_fields, call_rows, open_calls
from relight.server.pages.session import plan_lines
from relight.text import format as words
from relight.text.safe import shortened
from relight.values.info import ResumePlan, SessionInfo
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.library.facade import Relight

_BOXES: Final = 500
_PATHS: Final = 20
_WAIVED: Final = ("workspace_missing", "secrets_missing")
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
"""what a person can give to a session that its own limit keeps from going on"""
"""what stands against a resume, unless its user says so"""


def dialog(
    rl: Relight, info: SessionInfo, verb: str, *, seq: int | None, given: Mapping[str, str], now: datetime
) -> Dialog:
    """The dialog of a verb. NotFound for one that there is not."""
    make = _VERBS.get(verb)
    if make is None:
        raise NotFound(verb[:50], what="action")
    return make(Asked(rl=rl, info=info, seq=seq, given=given, now=now))


def _resume(asked: Asked) -> Dialog:
    good = asked.given.get("from") == "good"
    plan: ResumePlan = asked.rl.can_resume(asked.info.id if asked.seq is None else f"{asked.info.id}@{asked.seq}")
    agent = plan.agent.agent if plan.agent is not None else "its program"
    rung = f" with {agent}'s own resume" if plan.agent is not None and plan.agent.rung == "native" else ""
    blocking = [reason for reason in plan.reasons if reason.blocks and not (good and reason.code == "corrupt")]
    missing, unset = (any(reason.code == code for reason in blocking) for code in _WAIVED)
    lines = plan_lines(plan, asked.now) + [
        ("", one.text, "warn") for one in plan.reasons if not one.blocks or one.code in _WAIVED
    ]
    raised = [_RAISED[reason.code] for reason in blocking if reason.code in _RAISED]
    lines += [("", one.text, "warn") for one in blocking if one.code in _RAISED]
    blocking = [reason for reason in blocking if reason.code not in (*_WAIVED, *_RAISED)]
    start = f"Start attempt {asked.info.attempt + 1} of {asked.name} from @{plan.checkpoint.rpartition('@')[2]}{rung}."
    if plan.forks:
        start = f"Make a new session from {asked.ref} and start it{rung}; {asked.name} stays as it is."
    flags = [*(["--from-last-good"] if good else []), *(["--restore"] if missing else [])]
    flags += ["--without-secrets"] if unset else []
    flags += [word for one in raised for word in (f"--{one.name.replace('_', '-')}", "N")]
    limited = any(reason.code == "usage_limit" for reason in plan.reasons)
    no_command = "" if plan.command else "relight does not know how to start it: run your program again"
    return Dialog(
        title=f"Resume {asked.ref}",
        confirm="Resume",
        happens=start,
        kept="Nothing that is finished runs again; everything recorded stays.",
        back="Stop it at any time; it can be resumed again.",
        command=shlex.join(["relight", "resume", asked.ref, *flags]),
        path=f"{asked.api}/resume",
        plan=asked.plan,
        body={**({"from_last_good": True} if good else {}), **({"restore": True} if missing else {})},
        fields=[
            *raised,
            Field(kind="text", name="prompt", label="A prompt to go on with (optional)"),
            *([Field(kind="box", name="without_secrets", label="start it although they are not set")] if unset else []),
            *([Field(kind="box", name="now", label="start it now, without waiting for the limit")] if limited else []),
        ],
        lines=lines,
        why_not=blocking[0].text if blocking else no_command,
        done=f"{asked.name} runs",
        goes="/sessions/{id}" if plan.forks else "",
    )


def _fork(asked: Asked) -> Dialog:
    at = asked.seq if asked.seq is not None else asked.info.head
    fields = [
        Field(kind="line", name="name", label="Its name (optional)"),
        Field(kind="text", name="prompt", label="What to tell it (optional)"),
    ]
    command = ["relight", "fork", f"{words.ref(asked.info)}@{at}"]
    if asked.info.workspace:
        hint = "a directory that does not exist yet; empty: one beside the original, made by its first start"
        beside = f"{next(iter(asked.info.workspace.values())).rstrip('/')}-fork-{at}"
        fields.insert(
            1, Field(kind="line", name="workspace", label="Files go to a new directory", hint=hint, value=beside)
        )
        command += ["--workspace", beside]
    return Dialog(
        title=f"Fork {words.ref(asked.info)}@{at}",
        confirm="Fork",
        happens=f"Make a new session from @{at}. It does not start by itself.",
        kept=f"{asked.name} stays as it is.",
        back="Remove the fork; nothing else knows of it.",
        command=shlex.join(command),
        path=f"/api/sessions/{asked.info.id}@{at}/fork",
        fields=fields,
        lines=call_rows(open_calls(asked.rl, f"{asked.info.id}@{at}", "fork")),
        done=f"forked from {asked.name}@{at}",
        goes="/sessions/{id}",
    )


def _rewind(asked: Asked) -> Dialog:
    info = asked.info
    if asked.seq is None:
        return _choose_checkpoint(asked)
    gone = max(0, info.head - asked.seq)
    lines = [("conversation", f"{words.count(gone, 'step')} leave the model's view (kept)" if gone else "as it is", "")]
    conflicts: list[str] = []
    if info.workspace:
        text, role, conflicts = _restore_summary(asked)
        lines.append(("files", text, role))
        lines += [("changed by somebody else", _named(conflicts), "warn")] if conflicts else []
    lines.append(("not undone", *effects_line(asked.rl, info, asked.seq)))
    calls = open_calls(asked.rl, f"{info.id}@{asked.seq}", "rewind")
    lines += call_rows(calls)
    options = [
        Option(value="conversation", label="the conversation"),
        *([Option(value="files", label="the files")] if info.workspace else []),
        *([Option(value="both", label="both")] if info.workspace else []),
    ]
    flag = "--conversation|--files|--both" if info.workspace else "--conversation"
    between = f"@{asked.seq + 1} to @{info.head} stay in the journal" if gone else "the journal stays as it is"
    runs = info.status in LIVE
    agent = info.agent or "its program"
    first = f"Ask {agent} to end (SIGTERM), kill it if it does not listen, then move" if runs else "Move"
    meanwhile = ", and so does what it still does until it ends" if runs else ""
    stop = f"relight stop {shlex.quote(words.ref(info))} && " if runs else ""
    return Dialog(
        title=f"{'Stop and rewind' if runs else 'Rewind'} to {asked.ref}",
        confirm="Stop and rewind" if runs else "Rewind",
        happens=f"{first} {asked.name} back from @{info.head} to @{asked.seq}.",
        kept=f"Nothing is deleted: {between}{meanwhile}.",
        back="Undo takes it back, files and conversation."
        + (" Resume starts it again." if runs and info.command else ""),
        command=f"{stop}relight rewind {shlex.quote(asked.ref)} {flag}",
        path=f"{asked.api}/rewind",
        plan="" if runs else asked.plan,  # of one that runs the next step would make it another
        body={"stop": True} if runs else {},
        evidence=list(info.evidence) if runs else [],
        fields=[
            Field(kind="radio", name="scope", label="What goes back?", options=options, required=True),
            *([_who_wins(conflicts)] if conflicts else []),
            *again_fields(calls),
        ],
        lines=lines,
        undo=f"/api/sessions/{info.id}/undo",
        done=f"{asked.name} is back at @{asked.seq}",
    )


def _choose_checkpoint(asked: Asked) -> Dialog:
    """From the session's own page it is not said to where; labelled checkpoints are offered."""
    named = [one for one in asked.rl.checkpoints(asked.info.id) if one.label][-20:]
    options = [Option(value=f"/checkpoints/{one.id}/do/rewind", label=f"@{one.seq} “{one.label}”") for one in named]
    hint = "open a step in the history and rewind from its page" if not options else "or from any step in the history"
    return Dialog(
        title=f"Rewind {asked.name}",
        confirm="",
        happens="A rewind needs a checkpoint: choose where to go back to.",
        kept="Nothing happens yet.",
        back=hint,
        command=f"relight checkpoints {shlex.quote(asked.ref)}",
        path="",
        fields=[Field(kind="boxes", name="go", label="Checkpoints with a label", options=options)] if options else [],
    )


def _restore_summary(asked: Asked) -> tuple[str, str, list[str]]:
    """What would be done to the files, in what role, and which of them somebody else changed."""
    try:
        report = asked.rl.restore(f"{asked.info.id}@{asked.seq}", dry_run=True)
    except RelightError as error:
        return error.message, "warn", []
    decisions = {root: plan.decision for root, plan in report.plans.items()}
    writes = sum(len(one.writes) for one in decisions.values())
    deletes = sum(len(one.deletes) for one in decisions.values())
    text = f"{writes} written, {deletes} deleted; a safety snapshot comes first"
    found = [
        ("" if len(decisions) == 1 else f"{root}:") + one.path.decode("utf-8", "backslashreplace")
        for root, decision in decisions.items()
        for one in decision.conflicts
    ]
    return text, "warn" if found else "", found


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
    return ", ".join(paths[:_PATHS]) + more


def _who_wins(paths: list[str]) -> Field:
    """Where files were changed by somebody else since: nothing goes back before it is said who wins."""
    which = f"{words.count(len(paths), 'file')} that somebody else changed"
    return Field(
        kind="radio",
        name="choice",
        label=f"And {which}?",
        required=True,
        when=("files", "both"),
        options=[
            Option(value="theirs", label="leave them as they are on disk"),
            Option(value="ours", label="put them back too; the safety snapshot keeps what is there now"),
        ],
    )


def _restore(asked: Asked) -> Dialog:
    plan: ResumePlan = asked.rl.can_resume(f"{asked.info.id}@{asked.seq}" if asked.seq is not None else asked.info.id)
    differ = (plan.files.differ if plan.files is not None else None) or []
    what = {"added": "deleted: it is not in the checkpoint", "changed": "written over", "deleted": "comes back"}
    roots = asked.info.workspace
    boxes = [
        Option(
            value=os.path.join(roots.get(one.root, ""), one.path),
            label=one.path if len(roots) == 1 else f"{one.root}:{one.path}",
            note=what[one.what] + (", but somebody changed it after the last step" if one.later else ""),
            on=not one.later,
            risky=one.later,
        )
        for one in differ[:_BOXES]
    ]
    none = "no file differs from this checkpoint" if plan.files is not None and plan.files.differ is not None else ""
    trouble = (plan.files.trouble or "") if plan.files is not None else "the session has no workspace"
    live = "it runs: stop it first" if asked.info.status in LIVE else ""
    return Dialog(
        title=f"Restore files of {asked.ref}",
        confirm="Restore files",
        happens=f"Put the chosen files back to what they were at {asked.ref}. The conversation stays where it is.",
        kept="A safety snapshot of what is on disk now is taken first; what no snapshot holds is never destroyed.",
        back="Undo puts them back as they are now, byte for byte.",
        command=shlex.join(["relight", "restore", asked.ref]),
        path=f"{asked.api}/restore",
        plan=asked.plan,
        fields=[Field(kind="boxes", name="paths", label="Files", options=boxes, required=True)] if boxes else [],
        why_not=live or ("" if boxes else trouble or none or "the directory is not there"),
        undo=f"/api/sessions/{asked.info.id}/undo",
        done=f"files of {asked.ref} restored",
    )


def _undo(asked: Asked) -> Dialog:
    standing = next_undo(asked.rl.operations(asked.info.id))
    told = "Nothing is left to undo."
    if standing is not None:
        heads = f", head @{standing.heads[1]} → @{standing.heads[0]}" if standing.heads is not None else ""
        told = f"Undo the {standing.verb} of @{standing.id}{heads}{', files too' if standing.files else ''}."
    return Dialog(
        title=f"Undo in {asked.name}",
        confirm="Undo",
        happens=told,
        kept="The journal only grows: the operation and its undoing both stay in it.",
        back="`relight undo --redo` goes forward again.",
        command=shlex.join(["relight", "undo", words.ref(asked.info)]),
        path=f"/api/sessions/{asked.info.id}/undo",
        plan=asked.rl.plan_hash(asked.info.id),
        why_not="" if standing is not None else "there is no rewind or restore to undo",
        done=f"undone in {asked.name}",
    )


def _decide(allow: bool) -> Callable[[Asked], Dialog]:
    verb = "approve" if allow else "deny"

    def make(asked: Asked) -> Dialog:
        return Dialog(
            title=f"{'Approve' if allow else 'Refuse'} in {asked.name}",
            confirm="Approve" if allow else "Refuse",
            happens="The call below runs once, on approve."
            if allow
            else "The call below does not run; the agent is told.",
            kept="The decision is recorded in the journal, with who took it.",
            back="It cannot be taken back once it ran." if allow else "The agent may ask again.",
            command=shlex.join(["relight", verb, words.ref(asked.info)]),
            path=f"/api/sessions/{asked.info.id}/{verb}",
            plan=asked.rl.plan_hash(asked.info.id),
            exact=asked.info.question or "",
            why_not="" if asked.info.status == "waiting" else "it does not wait for a decision any more",
            done=f"{'approved' if allow else 'refused'} in {asked.name}",
        )

    return make


def _answer(asked: Asked, *, waiting: bool) -> Field:
    """A text, or one of the choices that the question has."""
    asking = asked.info.asking if waiting else None
    if asking is None or not asking.choices:
        return Field(kind="text", name="text", label="Answer" if waiting else "Text", required=True)
    options = [Option(value=one, label=one) for one in asking.choices]
    return Field(kind="radio", name="text", label="Answer", options=options, required=True)


def _send(asked: Asked) -> Dialog:
    waiting = asked.info.status == "waiting"
    return Dialog(
        title=f"{'Answer' if waiting else 'Send to'} {asked.name}",
        confirm="Answer" if waiting else "Send",
        happens="It is told what you write here." if waiting else "It is its next prompt, or typed to the live agent.",
        kept="What it asked and what you answer are both in the journal.",
        back="A later rewind can take it out of the model's view.",
        command=f"relight send {shlex.quote(words.ref(asked.info))} TEXT",
        path=f"/api/sessions/{asked.info.id}/send",
        exact=asked.info.question or "" if waiting else "",
        fields=[_answer(asked, waiting=waiting)],
        why_not="it is archived" if asked.info.status == "archived" else words.send_refusal(asked.info),
        done=f"{'answered' if waiting else 'sent to'} {asked.name}",
    )


def _stop(asked: Asked) -> Dialog:
    agent = asked.info.agent or "its program"
    return Dialog(
        title=f"Stop {asked.name}",
        confirm="Stop",
        happens=f"Ask {agent} to end (SIGTERM), then kill it if it does not listen.",
        kept=f"Saved up to @{asked.info.head}.",
        back="Resume any time.",
        command=shlex.join(["relight", "stop", words.ref(asked.info)]),
        path=f"/api/sessions/{asked.info.id}/stop",
        evidence=list(asked.info.evidence),
        why_not="" if asked.info.status in LIVE else "it does not run",
        done=f"{asked.name} is stopped",
    )


def _clear(asked: Asked) -> Dialog:
    info = asked.info
    owner = info.evidence[0] if info.evidence else "nobody"
    alive = info.status in LIVE and bool(info.evidence)
    return Dialog(
        title=f"Clear {asked.name}",
        confirm="Clear",
        happens=f"Take the lease from its owner ({owner}). If that one lives its next write is refused and it stops.",
        kept=f"Saved up to @{info.head}; the session becomes terminated, and can be resumed.",
        back="Resume it. Who cleared it, when and why stays in the journal and the audit log.",
        command=shlex.join(["relight", "clear", words.ref(info)]),
        path=f"/api/sessions/{info.id}/clear",
        evidence=list(info.evidence),
        fields=[
            Field(kind="line", name="why", label="Why (kept in the audit log)"),
            Field(
                kind="box",
                name="forget_native",
                label="also forget the agent's own session",
                options=[Option(value="true", label="also forget the agent's own session")],
            ),
        ],
        typed=words.ref(info) if alive else "",
        danger=True,
        why_not="" if info.evidence else "nobody holds it",
        done=f"{asked.name} is cleared",
    )


def _archive(asked: Asked) -> Dialog:
    return Dialog(
        title=f"Archive {asked.name}",
        confirm="Archive",
        happens="Finished for good: it can be read, forked and exported, and is never resumed.",
        kept="All of it, until a sweep's time is over.",
        back="Fork its head to go on.",
        command=shlex.join(["relight", "archive", words.ref(asked.info)]),
        path=f"/api/sessions/{asked.info.id}/archive",
        plan=asked.rl.plan_hash(asked.info.id),
        done=f"{asked.name} is archived",
    )


def _remove(asked: Asked) -> Dialog:
    info = asked.info
    trouble, forks, going = "", 0, None
    try:
        going = asked.rl.drop(info.id, with_forks=True, dry_run=True)
        forks = len(going.sessions) - 1
    except RelightError as error:
        trouble = error.message
    size = words.size(going.size_bytes + going.file_bytes) if going is not None else ""
    with_them = f" and {words.count(forks, 'fork')} that read from it" if forks else ""
    steps = f", {words.count(going.steps, 'step')}, {size} only it uses" if going is not None else ""
    return Dialog(
        title=f"Remove {asked.name}",
        confirm="Remove for ever",
        happens=f"Delete {asked.name}{with_them}{steps}.",
        kept="Nothing of it. Export it first if you may want it again.",
        back="This cannot be undone.",
        command=shlex.join(["relight", "rm", words.ref(info), *(["--with-forks"] if forks else [])]),
        path=f"/api/sessions/{info.id}" + ("?with_forks=true" if forks else ""),
        method="DELETE",
        plan=asked.rl.plan_hash(info.id),
        typed=words.ref(info),
        danger=True,
        why_not=trouble,
        done=f"{asked.name} is removed",
        goes="/",
    )


def _export(asked: Asked) -> Dialog:
    name = words.ref(asked.info)
    return Dialog(
        title=f"Export {asked.name}",
        confirm="",
        happens="One file with the session, its ancestors and its captured files, without secrets.",
        kept="The session stays as it is.",
        back="`relight import FILE` takes it in, here or elsewhere.",
        command=shlex.join(["relight", "export", name, f"{name}.relight"]),
        path="",
    )


def _label(asked: Asked) -> Dialog:
    hint = "letters, digits, . _ - and not all digits"
    return Dialog(
        title=f"Label {asked.ref}",
        confirm="Label",
        happens="Give this checkpoint a name, by which it can be found and returned to.",
        kept="The checkpoint itself stays as it is.",
        back="The newest use of a label wins: give it to another checkpoint.",
        command=f"relight label {shlex.quote(asked.ref)} NAME",
        path=f"/api/checkpoints/{asked.info.id}@{asked.seq if asked.seq is not None else asked.info.head}/label",
        fields=[Field(kind="line", name="label", label="Name", required=True, hint=hint)],
        done=f"{asked.ref} has a name",
    )


def _settle(asked: Asked) -> Dialog:
    """Of one call; the first in doubt where none is named."""
    wanted = asked.given.get("call", "")
    doubts = [one for one in asked.rl.load(asked.info.id).calls if one.in_doubt]
    call = next((one for one in doubts if one.id == wanted or not wanted), None)
    if call is None:
        return Dialog(
            title=f"Settle a call of {asked.name}",
            confirm="Settle",
            happens="Say what became of a call of which nobody knows whether it took effect.",
            kept="Nothing happens yet.",
            back="Look at the tool calls of the session.",
            command=shlex.join(["relight", "can-resume", words.ref(asked.info)]),
            path=f"/api/sessions/{asked.info.id}/settle",
            why_not="this call is not in doubt any more" if wanted else "no call is in doubt any more",
        )
    more = f" {len(doubts) - 1} more are in doubt." if len(doubts) > 1 else ""
    return Dialog(
        title=f"Settle {call.name} of {asked.name}",
        confirm="Settle",
        happens=f"{call.name} began at @{call.intent_seq} and is not known to have ended. Say what became of it, or let"
        f" it run again: then it runs when the session goes on.{more}",
        kept="What you say is its result, marked as written by a person.",
        back="To take it back, rewind to before the call; what it did outside stays done.",
        command=shlex.join(["relight", "settle", words.ref(asked.info), call.id]),
        path=f"/api/sessions/{asked.info.id}/settle",
        plan=asked.rl.plan_hash(asked.info.id),
        body={"call": call.id},
        fields=[
            Field(kind="box", name="retry", label="it did not take effect: run it again"),
            Field(
                kind="text", name="result", label="Its result, as the model will read it", required=True, unless="retry"
            ),
        ],
        exact=shortened(json.dumps(call.arguments, indent=2, ensure_ascii=False, default=str), 4000),
        done=f"settled in {asked.name}",
    )


_VERBS: Final[dict[str, Callable[[Asked], Dialog]]] = {
    "resume": _resume,
    "fork": _fork,
    "rewind": _rewind,
    "restore": _restore,
    "undo": _undo,
    "approve": _decide(True),
    "deny": _decide(False),
    "send": _send,
    "stop": _stop,
    "clear": _clear,
    "archive": _archive,
    "remove": _remove,
    "export": _export,
    "label": _label,
    "settle": _settle,
}
VERBS: Final = tuple(_VERBS)


def sweep_dialog(rl: Relight) -> Dialog:
    """What a sweep would remove, always shown first."""
    going = rl.sweep(dry_run=True)
    names = going.names[:50]
    more = f" and {len(going) - len(names)} more" if len(going) > len(names) else ""
    freed = words.size(going.size_bytes + going.file_bytes)
    return Dialog(
        title="Sweep",
        confirm="Sweep",
        happens=f"Remove {words.count(len(going), 'session')} that finished longer ago than is kept; {freed} freed.",
        kept="Unfinished sessions: none of them goes, nor one that a kept fork reads from.",
        back="This cannot be undone.",
        command="relight sweep",
        path="/api/sweep",
        lines=[("goes", ", ".join(names) + more, "")] if names else [],
        danger=True,
        why_not="" if len(going) else "nothing is due",
        done="swept",
    )


def retention_dialog(rl: Relight) -> Dialog:
    """How long finished sessions are kept, and what a week would remove."""
    policy = rl.retention
    would = rl.kept_longer_than(policy.finished_days if policy.finished_days is not None else 7.0)
    number = f"{'at least ' if would.more else ''}{words.count(would.sessions, 'session')}"
    now = days_text(policy.finished_days) if policy.is_set else "7d"
    return Dialog(
        title="Retention",
        confirm="Set",
        happens="Finished sessions are removed so long after their end, once a day, by servers, workers and supervisors"
        " of this store. Nothing is removed by setting it.",
        kept="Unfinished sessions, and those that a kept fork reads from. What was removed stands in the audit log.",
        back="Set it to off: nothing more is removed. What was removed does not come back.",
        command=f"relight sweep --set {now}",
        path="/api/retention",
        lines=[
            ("now", words.policy_text(policy), ""),
            ("over", f"{number} finished over {days_text(would.days)} ago, {words.size(would.size_bytes)}", ""),
        ],
        fields=[
            Field(kind="line", name="retention", label="Keep for", required=True, value=now, hint="7d, 36h, 2w, off")
        ],
        danger=True,
        why_not=f"{policy.set_by} is set for this server, and decides" if policy.set_by == "RELIGHT_RETENTION" else "",
        done="the policy is set",
    )
