"""Launch: create a session with its command line, and check whether a session can be started.

Checks come before any change. Whether the program exists is checked on the machine that will start it: this one, unless
the session is queued for a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from relight.errors import Conflict, NotResumable, UsageError, WorkspaceUnusable
from relight.files import repositories, workspace_check
from relight.files.capture import close_all, never_captured, open_roots, with_roots
from relight.files.status import missing_roots
from relight.history.loading import Found
from relight.journal.quiet_hours import quiet_hours
from relight.journal.redaction.command_line import recordable
from relight.operations.send import check_argument, check_prompt
from relight.ports.agent import AgentAdapter, Ask, Hooks, Surroundings
from relight.sessions import limits as limiting
from relight.sessions import names as naming
from relight.sessions.context import Context
from relight.sessions.entry.children import of_session, refuse_removed
from relight.sessions.environment import checked_env, checked_secrets
from relight.sessions.opening import checked_fields, create, new_identity, refuse_archived, refuse_subagent
from relight.values.execution import execution_of
from relight.values.info import Reason
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import RunPolicy
from relight.values.queues import QueuePosition
from relight.values.session import Identity

_NAMES: Final = 1000
_MAX_SECONDS: Final = 1e9
"""after which an approval may expire at the latest: thirty years"""


def launch(
    context: Context,
    command: Sequence[str],
    options: RunOptions,
    *,
    queue_position: QueuePosition | None = None,
    wake_us: int | None = None,
    in_queue: bool = True,
) -> Identity:
    """Create a session that has a command line; nothing is started yet. Not `in_queue`: a later step queues it."""
    return create(
        context, planned(context, command, options, queue_position), wake_us=wake_us, in_queue=in_queue
    ).identity


def planned(
    context: Context, command: Sequence[str], options: RunOptions, queue_position: QueuePosition | None = None
) -> Identity:
    """The identity of a session with a command line, checked; nothing is written. Without a name it gets a typable one.

    With a `queue_position` it is queued for a worker. That may be on another machine, so whether the program exists is
    checked by the process that starts it.
    """
    refuse_one_text(command)
    if any("\0" in word for word in command):
        raise UsageError("a word of a command must not contain a NUL byte")
    adapter = context.agents.of(command)
    directory, policy = options.directory, options.policy
    if queue_position is None:
        check_program(context, adapter, command, directory, options.runtime)
    refuse_unshared(context)
    named = checked_secrets(context, options.secrets, here=queue_position is None)
    context.declare_secrets(named)
    kept = checked_env(context, options.env)
    where = Surroundings(directory=directory, environment={**context.environment, **kept})
    limiting.check_enforceable(context, adapter, command, policy, where)
    check_approvals(context, adapter, command, where, policy)
    check_failover(context, adapter, policy)
    naming.check_free(context, options.name, f"continue it: relight resume {options.name}")
    task = adapter.task_of(command)
    recorded = recordable(command, context.redactor(), context.environment, prompt=task)
    _tell_lost(context, recorded.lost, in_queue=queue_position is not None)
    fields: dict[str, Any] = {
        "agent": options.agent if adapter.name == "command" else adapter.name,
        "provider": adapter.provider,
        "task": task,
        "command": recorded.words,
        "directory": directory,
        "runtime": options.runtime,
        "policy": policy,
        "secrets": list(dict.fromkeys((*named, *_credentials(adapter, where), *recorded.variables))),
        "unrecorded": recorded.lost,
        "env": kept,
        # Told by name for the built-in ones (`Context.is_coding_agent`); others are not looked up at every opening.
        "redact": adapter.capabilities.transcript and adapter.name not in context.agents.names,
        **checked_fields(labels=options.labels, metadata=None),
        "queue_position": queue_position,
    }
    identity = new_identity(context, options.name or _free_name(context, options.agent, directory), fields)
    if options.parent is not None:
        child = of_session(context, options.parent, identity.name or identity.id)
        refuse_removed(context, child)
        identity = child.identity(identity)
    limiting.check_above(context, adapter, identity, command, where)
    if options.workspace:
        identity = with_roots(context, identity, options.workspace)
        try:
            close_all(open_roots(context.workspaces(), identity, watch=False))  # raises if it cannot be captured
        except WorkspaceUnusable as error:
            raise never_captured(context, identity, error) from None
    elif adapter.capabilities.transcript:
        identity = housed_where_it_runs(context, identity, directory)
    if recorded.words != list(command):
        # The stored command line is redacted. This process needs the real one, for the first start.
        context.commands[identity.id] = tuple(command)
    return identity


def refuse_one_text(command: Any) -> None:
    """UsageError for a command line in one text, each letter of which would be a word."""
    if isinstance(command, str):
        raise UsageError("a command is a list of its words, not one text", hints=["shlex.split(TEXT) makes one"])


def headless(context: Context, agent: str | None, prompt: str | None) -> list[str]:
    """The command line that runs a named agent with a prompt and without a screen."""
    hints = ["give a command", f"or one of the agents {', '.join(sorted(context.agents.names))}, with a prompt"]
    if not agent:
        raise UsageError("no command given", hints=hints)
    start = context.agents.headless(agent)
    if not start:
        raise UsageError(f"relight knows no agent {agent[:100]!r} that it could start", hints=hints)
    if prompt is None or not prompt.strip():
        raise UsageError(f"{agent} is started with a prompt", hints=["give a prompt"])
    if prompt.startswith("-"):
        raise UsageError("a prompt must not begin with a dash: it would be read as an option", hints=["reword it"])
    return [*start, prompt]


def check_approvals(
    context: Context, adapter: AgentAdapter, command: Sequence[str], where: Surroundings, policy: RunPolicy
) -> None:
    """UsageError if calls need approval and this agent, started like this, could not be made to wait for it."""
    if policy.approve_within is not None and not 0 < policy.approve_within <= _MAX_SECONDS:
        raise UsageError(f"an approval expires after a number of seconds above 0, not {policy.approve_within:g}")
    if policy.approve_within is not None and not policy.approve:
        raise UsageError("nothing waits for an approval that could expire", hints=["add --approve PATTERN"])
    if not policy.approve:
        return
    if not adapter.capabilities.approvals:
        able = sorted(one.name for one in context.agents.known() if one.capabilities.approvals)
        hints = [f"leave out --approve, or choose an agent that can: {', '.join(able)}"]
        raise UsageError(f"{adapter.name} cannot be made to wait for a decision", hints=hints)
    # A launch is a value: the adapter refuses flags and variables with which its hooks would not run.
    trial = Hooks(command=("hook",), file=Path(where.directory, "settings.json"), approve=policy.approve, deny="{}")
    adapter.launch(Ask(command=tuple(command), surroundings=where, rung="fresh", hooks=trial))


def check_failover(context: Context, adapter: AgentAdapter, policy: RunPolicy) -> None:
    """UsageError for a failover that could never happen."""
    if policy.quiet_hours is not None:
        quiet_hours(policy.quiet_hours)
    if not adapter.capabilities.transcript and (policy.fallback or policy.windows or policy.quiet_hours):
        raise UsageError("--fallback, --windows and --quiet-hours are for coding agents")
    if policy.returns and not policy.fallback:
        raise UsageError("--return needs other agents: add --fallback")
    able = sorted(one.name for one in context.agents.known() if one.dialect is not None)
    for name in policy.fallback:
        if name not in able or name == adapter.name:
            raise UsageError(f"{name[:50]!r} cannot continue a session of {adapter.name}", hints=[f"one of {able}"])
        if policy.approve and not context.agents.named(name).capabilities.approvals:
            raise UsageError(
                f"{name} cannot be made to wait for a decision", hints=["leave out --approve, or this agent"]
            )


def _credentials(adapter: AgentAdapter, where: Surroundings) -> list[str]:
    """Names of the variables that the agent takes its credentials from here."""
    names = (*adapter.secrets, *adapter.configured_secrets(where))
    return [name for name in names if where.environment.get(name)]


def _tell_lost(context: Context, lost: Sequence[str], *, in_queue: bool) -> None:
    """Warn that a secret in the command line is not recorded. UsageError if a worker would start it from the record."""
    if not lost:
        return
    kinds = ", ".join(lost)
    if in_queue:
        hints = ["put it into a variable that the worker has too, and let the program read that"]
        raise UsageError(
            f"the command line holds a secret ({kinds}); secrets are not recorded, and a worker starts a session from "
            "its record; nothing was queued",
            hints=hints,
        )
    context.notify(
        f"the command line holds a secret ({kinds}), which is not recorded: once this supervisor has ended, the session"
        " cannot be started again; give it as a variable instead: relight run --secret NAME -- COMMAND"
    )


def check_program(context: Context, adapter: AgentAdapter, command: Sequence[str], directory: str, name: str) -> None:
    """UsageError unless the program exists and this runtime can start it."""
    for word in command:
        check_argument(word, "a word of the command")
    try:
        context.runtimes(name, "", True).check(command, directory)
    except UsageError as error:
        if not adapter.capabilities.transcript or not adapter.install_hint or "no program" not in error.message:
            raise  # the program's own name says more than "command"
        raise UsageError(f"{adapter.name} is not installed", hints=[f"install it: {adapter.install_hint}"]) from None


def housed_where_it_runs(context: Context, identity: Identity, directory: str) -> Identity:
    """Capture a coding agent's files in the directory it runs in, if that can be captured."""
    try:
        housed_there = with_roots(context, identity, directory)
        close_all(open_roots(context.workspaces(), housed_there, watch=False))
    except WorkspaceUnusable as error:
        context.notify(f"its files are not captured: {error.why}; choose them: relight run --workspace DIR")
        return identity
    return housed_there


def _free_name(context: Context, agent: str, directory: str) -> str:
    """Agent and directory, `claude-shop`, then `claude-shop-2`."""
    last = directory.rstrip("/").rpartition("/")[2]
    stem = "-".join(filter(None, (_typable(agent), _typable(last))))[:80] or "session"
    for number in range(1, _NAMES):
        name = stem if number == 1 else f"{stem}-{number}"
        if naming.is_free(context, name):
            return name
    raise Conflict(f"{stem}: {_NAMES} sessions of this name", hints=["choose one: relight run --name NAME -- ..."])


def _typable(text: str) -> str:
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in text)
    return kept.strip("._-")


def check_startable(context: Context, found: Found, options: ResumeOptions) -> None:
    """Raise if the session could not be started; changes nothing."""
    refuse_archived(found)
    refuse_subagent(found.identity)
    name = found.identity.name or found.identity.id[:8]
    if found.identity.command is None and "imported" in found.identity.metadata:
        hints = [f"import it again with the key it was signed with, or take a copy: relight fork {name}"]
        raise NotResumable(name, "it was imported and its signature is not known: it starts nothing", hints=hints)
    if found.identity.command is None or found.identity.directory is None:
        hints = ["it continues when your program opens it again"]
        raise NotResumable(name, "relight did not start it, so run your program again", hints=hints)
    below_head = found.seq is not None and found.seq != found.whole_head().head
    if found.whole_head().status == "completed" and options.prompt is None and not below_head:
        raise NotResumable(name, "it is completed", hints=[f"continue with a new prompt: relight resume {name} PROMPT"])
    refuse_unshared(context)
    if options.prompt is not None:
        check_prompt(context, found.identity, options.prompt)
    limiting.refuse(context, found, options.limits)
    if not below_head:  # a fork gets files of its own
        workspace_check.check_workspace(context, found, restore=options.restore)
        if not options.restore:
            repositories.check(context, found)
    if reason := _incomplete(context, found.identity):
        hints = ["start it again with the secret in a variable: relight run --secret NAME -- COMMAND"]
        raise NotResumable(name, reason, hints=hints)
    missing = execution_of(found.identity, found.whole_head()).missing(context.environment)
    if missing:
        hints = [f"set them, then: relight resume {name}"]
        hints.append(f"or continue without them: relight resume {name} --without-secrets")
        if not options.without_secrets:
            raise NotResumable(name, f"missing: {', '.join(missing)}", hints=hints)
    if not missing_roots(found.identity) and not (below_head and found.identity.workspace):
        # Otherwise checked after the files were restored: its directory may be one of them.
        adapter = context.agent(found.identity)
        runtime = found.identity.runtime or "process"
        check_program(context, adapter, found.identity.command, found.identity.directory, runtime)


def _incomplete(context: Context, identity: Identity) -> str | None:
    """Why the recorded command line is not enough to start it; None if it is, or this process has the full one."""
    if not identity.unrecorded or identity.id in context.commands:
        return None
    kinds = ", ".join(identity.unrecorded)
    return f"its command line held a secret ({kinds}), which was not recorded; everything it did is kept"


def foresee_start(context: Context, found: Found) -> tuple[dict[str, bool], list[Reason]]:
    """For a plan: the session's secret variables, set here or not, and the reasons why a start would be refused."""
    identity = found.identity
    if identity.command is None or identity.directory is None:
        return {}, []
    name, reasons = identity.name or identity.id[:8], list[Reason]()
    variables = {one: bool(context.environment.get(one)) for one in identity.secrets}
    if unset := [one for one, is_set in variables.items() if not is_set]:
        cure = f"relight resume {name} --without-secrets"
        reasons.append(Reason(code="secrets_missing", text=f"not set here: {', '.join(unset)}", cure=cure))
    if reason := _incomplete(context, identity):
        reasons.append(Reason(code="command_incomplete", text=reason, cure="relight run --secret NAME -- COMMAND"))
    try:
        if not missing_roots(identity):  # with the process runtime: a plan must not start a tmux server or a sandbox
            check_program(context, context.agent(identity), identity.command, identity.directory, "process")
    except UsageError as error:
        reasons.append(Reason(code="no_program", text=error.message, cure=error.hints[0] if error.hints else None))
    return variables, reasons


def bring_back(context: Context, found: Found) -> None:
    """Restore the workspace, then check again that the program can be started in it."""
    workspace_check.bring_back(context, found)
    check_there(context, found.identity)


def check_there(context: Context, identity: Identity) -> None:
    """UsageError if the session's runtime cannot start the program in its directory."""
    context.runtime(identity).check(identity.command or [], identity.directory or ".")


def refuse_unshared(context: Context) -> None:
    """UsageError for a memory store, which another process cannot open."""
    if context.store.info.durability == "none" and "://" not in context.store.url:
        what = "a program can only be supervised on a store that it can open too"
        raise UsageError(what, hints=["choose a file: set RELIGHT_STORE"])
