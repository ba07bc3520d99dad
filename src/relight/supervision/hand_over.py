"""Hand-over: a conversation that another agent, a program or a framework began is continued by a coding agent.

`resume --agent NAME` changes the command of the session with its claim, or of the fork. From then on the start sees a
conversation that is not in its agent's own format: it is converted (journal/conversion), written as a native session
and recorded as a reset, with the loss report, in one commit. So a session that was rewound to before its hand-over is
simply converted again, and the journal keeps the original.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from relight.errors import NotResumable, UsageError
from relight.history import events
from relight.history.fork import starts_new_session
from relight.history.loading import Found, load
from relight.journal.conversion.convert import Converted, convert, in_neutral_terms
from relight.journal.conversion.grammar import normalised
from relight.journal.conversion.losses import Loss, LossReport
from relight.journal.conversion.plain import WRITERS
from relight.journal.fold import Fold
from relight.journal.formats.content import result_block
from relight.journal.formats.registry import detect
from relight.journal.redaction.command_line import recordable
from relight.ports.agent import AgentAdapter, NativeCall, Surroundings
from relight.sessions import limits as limiting
from relight.sessions.context import Context
from relight.sessions.opening import refuse_untrusted
from relight.supervision import launch
from relight.supervision.native_repair import Ready, results_of
from relight.supervision.observe import SIDECHAIN, Observer
from relight.supervision.subagents import SubAgentSessions
from relight.values.call import Effect
from relight.values.info import HandOver
from relight.values.options import ResumeOptions
from relight.values.session import Identity, change_between
from relight.values.view import Call, Message, Result

_MAX_FAULTS = 5


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation to hand over, as its own agent or format reads it."""

    name: str
    adapter: AgentAdapter | None
    """None: not a coding agent's"""
    messages: list[Message]


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """An existing session that another agent continues: both ways, as changes of its identity."""

    before: Identity
    after: Identity

    def over(self, identity: Identity) -> Identity:
        """The session with the agent that it is handed over to."""
        return change_between(self.before, self.after)(identity)

    def back(self, identity: Identity) -> Identity:
        """The session with the agent that it had before, because the other one could not be started."""
        return change_between(self.after, self.before)(identity)


# -- the decision ---------------------------------------------------------------------------------------------------


def handed(context: Context, found: Found, options: ResumeOptions) -> Found:
    """The session with the agent that it is handed over to, and with the agents that are to continue it; nothing is
    written. UsageError or NotResumable if these agents cannot have it."""
    return _with_fallback(context, _with_agent(context, found, options), options)


def _with_fallback(context: Context, found: Found, options: ResumeOptions) -> Found:
    if options.fallback is None and options.returns is None:
        return found
    identity, policy = found.identity, found.identity.policy
    fallback = policy.fallback if options.fallback is None else tuple(options.fallback)
    returns = policy.returns and bool(fallback) if options.returns is None else options.returns
    policy = msgspec.structs.replace(policy, fallback=fallback, returns=returns)
    # One that continues it at present may be named: it continues the session of the agent that it was begun with.
    first = context.agents.named(identity.away.home) if identity.away is not None else context.agent(identity)
    launch.check_failover(context, first, policy)
    return msgspec.structs.replace(found, identity=msgspec.structs.replace(identity, policy=policy))


def _with_agent(context: Context, found: Found, options: ResumeOptions) -> Found:
    identity = found.identity
    agent = options.agent or due_home(context, identity)
    if agent is None:
        return found
    refuse_untrusted(found)
    directory = identity.directory
    if directory is None:
        hints = ["start the agent yourself, with its messages: rl.history.messages(ref, format=...)"]
        raise NotResumable(identity.name or identity.id[:8], "no directory to work in is recorded", hints=hints)
    adapter, command = target_of(context, identity, agent)
    former = context.agent(identity)
    where = Surroundings(directory=directory, environment={**context.environment, **identity.env})
    launch.check_approvals(context, adapter, command, where, identity.policy)
    limiting.check_enforceable(context, adapter, command, identity.policy, where)
    recorded = recordable(command, context.redactor(), context.environment, prompt=adapter.task_of(command))
    mine = {*former.secrets, *former.configured_secrets(where)}
    own = [one for one in (*adapter.secrets, *adapter.configured_secrets(where)) if context.environment.get(one)]
    secrets = [one for one in identity.secrets if one not in mine]
    commands = {**identity.commands, **({former.name: identity.command} if identity.command else {})}
    context.commands.pop(identity.id, None)
    if recorded.words != list(command):
        context.commands[identity.id] = tuple(command)
    changed = msgspec.structs.replace(
        identity if former.name == adapter.name else identity.with_model(None, after=found.whole_head().seq),
        agent=adapter.name,
        provider=adapter.provider,
        command=recorded.words,
        commands={agent: words for agent, words in commands.items() if agent != adapter.name},
        unrecorded=recorded.lost,
        away=None,
        runtime=identity.runtime or "process",
        secrets=list(dict.fromkeys((*secrets, *own, *recorded.variables))),
    )
    if not changed.workspace and not starts_new_session(found):  # as for every coding agent
        changed = launch.housed_where_it_runs(context, changed, directory)
    return msgspec.structs.replace(found, identity=changed)


def due_home(context: Context, identity: Identity) -> str | None:
    """The agent that a session returns to with its next start, because its limit is over; None: it stays."""
    away = identity.away
    if away is None or not identity.policy.returns or away.until_us is None:
        return None
    return away.home if context.clock.now_us() >= away.until_us else None


def target_of(context: Context, identity: Identity, agent: str) -> tuple[AgentAdapter, tuple[str, ...]]:
    """The agent and its command: one that had the session before gets the command it had then."""
    able = {one.name: one for one in context.agents.known() if one.dialect is not None}
    if agent in able:
        adapter = able[agent]
        if context.agent(identity).name == agent:
            return adapter, context.command_of(identity)
        assert adapter.dialect is not None
        screen = context.runtime(identity).persistent
        return adapter, tuple(identity.commands.get(agent) or adapter.dialect.command(screen=screen))
    try:
        command = tuple(shlex.split(agent))
    except ValueError as error:
        raise UsageError(f"the command of the agent cannot be parsed: {error}") from None
    adapter = context.agents.of(command) if command else context.agents.named("command")
    if adapter.name not in able:
        raise UsageError(
            f"{agent[:100]!r} is no coding agent that a session can be handed over to", hints=_choice(able)
        )
    return adapter, command


def _choice(able: dict[str, AgentAdapter]) -> list[str]:
    return [f"one of {', '.join(sorted(able))}, or its command line in quotes: --agent 'NAME --flag'"]


# -- the conversation -----------------------------------------------------------------------------------------------


def source_of(context: Context, found: Found, fold: Fold, target: AgentAdapter) -> Source | None:
    """The conversation, if it is not the target's own; None if there is nothing to convert."""
    if target.dialect is None or (fold.messages and fold.format.name == target.dialect.format):
        return None
    return spoken_at(context, found, fold)


def spoken_at(context: Context, found: Found, fold: Fold) -> Source | None:
    """The conversation of any session in the neutral view; None if nothing was said."""
    messages = fold.messages or events.records_thread(context, found)
    if not messages:
        return None
    form = fold.format if fold.messages else detect(messages)
    speaker = next(
        (one for one in context.agents.known() if one.dialect is not None and one.dialect.format == form.name), None
    )
    if speaker is not None and speaker.dialect is not None:
        return Source(name=speaker.name, adapter=speaker, messages=speaker.dialect.spoken(messages))
    return Source(name=form.name, adapter=None, messages=in_neutral_terms(form.read(messages)))


def plain_messages(context: Context, found: Found, format: str) -> list[dict[str, Any]]:
    """The conversation at a checkpoint as messages of a provider's API."""
    if format not in WRITERS:
        raise UsageError(f"no plain messages of format {format[:50]!r}", hints=[f"one of {', '.join(sorted(WRITERS))}"])
    source = spoken_at(context, found, load(context.store, found))
    if source is None:
        return []
    return WRITERS[format](normalised(source.messages, LossReport(), closings={}, first=found.identity.task))


def foresee(source: Source, target: AgentAdapter, *, task: str | None, at_us: int) -> HandOver:
    """The loss report and the faults of a hand-over, without changing anything."""
    made = _converted(source, target, (), {}, task, at_us)
    return _described(source, target, made)


def _converted(
    source: Source,
    target: AgentAdapter,
    hooked: Sequence[Message],
    closings: dict[str, Result],
    task: str | None,
    at_us: int,
) -> Converted:
    assert target.dialect is not None
    return convert([*source.messages, *hooked], target.dialect, at_us=at_us, closings=closings, first=task)


def _described(source: Source, target: AgentAdapter, made: Converted) -> HandOver:
    losses = [*made.losses, Loss(kind="dropped", what=f"settings and permissions of {source.name}")]
    return HandOver(
        source=source.name,
        target=target.name,
        message_count=len(made.messages),
        losses=[f"{loss.kind}: {loss.what}" + (f" ({loss.count} times)" if loss.count > 1 else "") for loss in losses],
        faults=made.faults[:_MAX_FAULTS],
    )


def take_over(
    observer: Observer,
    source: Source,
    surroundings: Surroundings,
    *,
    changed: Callable[[], Sequence[str] | None],
    task: str | None,
    now_us: int,
    subagents: SubAgentSessions | None = None,
) -> Ready | None:
    """Convert the conversation, write it as a native session of the observer's agent and record both, with the loss
    report. None, with a note, if a provider would refuse it: then the agent is given a brief instead. `subagents`:
    of the agent that had it."""
    adapter, fold = observer.adapter, observer.recorder.fold
    hooked = [
        Message(
            role="assistant", blocks=(_call(source, one.intent.id, one.intent.name, one.intent.arguments),), index=0
        )
        for one in fold.hooked.values()
        if not one.intent.name.startswith(SIDECHAIN)
    ]
    open_calls = _open_calls(fold, source, hooked)
    effects = _effects(fold, source)
    reports = subagents.results(open_calls, changed) if subagents is not None else {}
    results, unknown, carried = results_of(observer.recorder, open_calls, effects, changed, reports, now_us=now_us)
    closings = {
        call: result_block(call=call, text=result.text, failed=result.failed) for call, result in results.items()
    }
    made = _converted(source, adapter, hooked, closings, task, now_us)
    described = msgspec.to_builtins(_described(source, adapter, made))
    fresh = adapter.new_id()
    if made.faults or fresh is None:
        observer.mark({"not_handed_over": described})
        return None
    # The file first, then the journal: killed in between, the next start writes another one.
    path = adapter.write(made.lines, fresh, surroundings)
    observer.follow(path)
    observer.begin_with({"handed_over": described, **({"carried_over": carried} if carried else {})}, native=fresh)
    return Ready(native=fresh, path=path, written=True, unknown=unknown)


def _call(source: Source, call: str, name: str, arguments: Any) -> Call:
    asked = Call(id=call, name=name, arguments=arguments if isinstance(arguments, dict | str) else {}, op="other")
    dialect = source.adapter.dialect if source.adapter is not None else None
    if dialect is None:
        return asked
    [message] = in_neutral_terms([Message(role="assistant", blocks=(asked,), index=0)], dialect.tools)
    [block] = message.blocks
    assert isinstance(block, Call)
    return block


def _open_calls(fold: Fold, source: Source, hooked: Sequence[Message]) -> list[NativeCall]:
    """Calls without a result, under the names that their own agent has for them."""
    answered = {block.call for message in source.messages for block in message.blocks if isinstance(block, Result)}
    asked = {slot.site.id: (slot.site.name, slot.site.parsed()) for slot in fold.slots()}
    asked |= {one.intent.id: (one.intent.name, one.intent.arguments) for one in fold.hooked.values()}
    found = {
        block.id: asked.get(block.id, (block.name, block.arguments))
        for message in (*source.messages, *hooked)
        for block in message.blocks
        if isinstance(block, Call) and block.id not in answered
    }
    return [NativeCall(id=call, name=name, arguments=arguments) for call, (name, arguments) in found.items()]


def _effects(fold: Fold, source: Source) -> Callable[[NativeCall], Effect]:
    declared = {slot.site.id: slot.intent.effect for slot in fold.slots() if slot.intent is not None}

    def effect(call: NativeCall) -> Effect:
        if source.adapter is not None:
            return source.adapter.effect_of(call.name, call.arguments)
        return declared.get(call.id, "once")

    return effect
