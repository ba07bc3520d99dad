"""Limits of money, tokens and time of a program's own session, and whether a limit can be enforced at all.

What is used up is decided in journal/limits.py. The library halts the program itself: `loop` before it calls the model,
and `append` with the reply that reached the limit, which is kept. Coding agents: supervision/limits.py. The supervisor
ends what does neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relight.errors import LimitReached, NotResumable, UsageError
from relight.journal.limits import Reached, reached, uncounted
from relight.ports.agent import Surroundings
from relight.values.info import Reason
from relight.values.policy import NO_ALLOWANCE, Allowance, RunPolicy
from relight.values.step import Changes
from relight.values.usage import Usage

if TYPE_CHECKING:
    from relight.history.loading import Found
    from relight.ports.agent import AgentAdapter
    from relight.sessions.context import Context
    from relight.sessions.session import Session
    from relight.values.session import Head, Identity

# -- programs of one's own ------------------------------------------------------------------------------------------


def allowance(*, budget: Any = None, budget_tokens: Any = None, time_limit: Any = None) -> Allowance:
    """Limits as somebody gave them. UsageError where one is no limit."""
    given = {"budget": budget, "budget_tokens": budget_tokens, "time_limit": time_limit}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise UsageError(f"{name} is a number over 0, not {value!a}")
    if budget_tokens is not None and budget_tokens != int(budget_tokens):
        raise UsageError(f"budget_tokens is a whole number of tokens, not {budget_tokens!a}")
    return Allowance(
        budget=budget, budget_tokens=int(budget_tokens) if budget_tokens is not None else None, time_limit=time_limit
    )


def priced(context: Context, usage: Usage | None, model: str | None) -> Usage | None:
    """With what it cost, where the caller did not say and the price of the model is known."""
    if usage is None or usage.cost is not None or not usage.tokens:
        return usage
    price = context.price(model)
    return usage if price is None else msgspec.structs.replace(usage, cost=price.cost(usage))


def note_reply(s: Session, messages: Sequence[Any], usage: Usage | None) -> None:
    """A reply that tells nothing of what it used makes a limit of money or tokens impossible to hold."""
    policy = s._recorder.identity.policy
    if not policy.counts_usage or not any(map(s._recorder.fold.format.is_assistant, messages)):
        return
    if usage is None or not (usage.tokens or usage.cost):
        s._uncounted = "a reply came without its usage"
    elif policy.budget is not None and usage.cost is None:
        s._uncounted = no_price(s._recorder.identity.model)


def no_price(model: str | None) -> str:
    """Why money cannot be counted, and what can."""
    which = f"no price is known for the model {model}" if model else "nobody said which model replies"
    return f"{which}; give it one in RELIGHT_PRICES, or limit tokens instead (budget_tokens)"


def reached_by(s: Session) -> Reached | None:
    """The limit that keeps this session from another model call."""
    recorder, policy = s._recorder, s._recorder.identity.policy
    used = reached(policy, recorder.head, now_us=s._context.clock.now_us())
    return used or (uncounted(policy, s._uncounted) if s._uncounted is not None else None)


def halt_at_limit(s: Session) -> bool:
    """Before a model call: halt the session where a limit is reached. Was it?"""
    limit = reached_by(s)
    if limit is None:
        return False
    s._record("status", Changes(status=limit.change), release=True)
    return True


def stop_own_loop(s: Session, recorded: Any) -> None:
    """After a reply was recorded by a program with a loop of its own: LimitReached where it must not ask for more."""
    recorder = s._recorder
    if recorder.identity.policy == _NO_LIMITS or not recorder.owns:
        return
    messages = recorded if isinstance(recorded, list | tuple) else [recorded]
    if not any(map(recorder.fold.format.is_assistant, messages)):
        return  # only a reply leads to the next one; what the user says is kept whatever was spent
    limit = reached_by(s)
    if limit is not None:
        halt_at_limit(s)
        raise LimitReached(s.name or s.id, limit.why)


_NO_LIMITS: Final = RunPolicy()


# -- before a start -------------------------------------------------------------------------------------------------


def policy_with(context: Context, identity: Identity, limits: Allowance, *, model: str | None = None) -> RunPolicy:
    """A session's policy with these limits on it. A limit of tokens takes the place of a budget in money that cannot be
    counted, because nothing else would take that budget away. `model`: the one it gets with them."""
    policy = limits.on(identity.policy)
    instead = limits.budget is None and limits.budget_tokens is not None
    if not instead or policy.budget is None:
        return policy
    model = model or model_for(context, identity)
    countable = model is None or context.price(model) is not None
    return policy if countable else msgspec.structs.replace(policy, budget=None)


def model_for(context: Context, identity: Identity) -> str | None:
    """The model that a start of it would ask: of an agent the one it is told to take, else the one it had last."""
    adapter = context.agent(identity)
    if not adapter.capabilities.transcript:
        return identity.model
    environment = {**context.environment, **identity.env, **context.runtime(identity).environment()}
    where = Surroundings(directory=identity.directory or ".", environment=environment)
    return adapter.model_of(context.command_of(identity), where) or identity.model


def check_enforceable(
    context: Context, adapter: AgentAdapter, command: Sequence[str], policy: RunPolicy, where: Surroundings
) -> None:
    """For a session that begins with a command. UsageError where a limit of money or tokens could not be held."""
    if not policy.counts_usage:
        return
    if adapter.capabilities.transcript:
        model = adapter.model_of(command, where)
        if policy.budget is not None and model is not None and context.price(model) is None:
            hints = ["limit tokens instead: --budget-tokens N", _A_PRICE]
            raise UsageError(_no_budget(model), hints=hints)
        return
    if not policy.library and not context.uses_library(command, where.directory):
        hints = ["limit its time instead: --time-limit SECONDS"]
        hints += ["or, where it opens its session with relight, say so: --library"]
        raise UsageError(_SILENT, hints=hints)


def check_priced(context: Context, identity: Identity, head: Head | None, *, before: Identity | None = None) -> None:
    """For a program that opens its session. UsageError where its budget in money cannot be counted.

    `before`: as it was recorded. What this same model replied so far was told with its cost: so will be what it replies
    next, whether there is a price or not.
    """
    if _unpriced(context, identity, head, before or identity) is not None:
        hints = ["limit tokens instead: rl.session(..., budget_tokens=N)", _A_PRICE]
        if before is None or before.model != identity.model:
            hints.append('or, where the program tells each cost itself (usage={"cost": ...}), leave out model')
        raise UsageError(_no_budget(identity.model or ""), hints=hints)


def _unpriced(context: Context, identity: Identity, head: Head | None, before: Identity) -> str | None:
    """The model whose replies cannot be counted in money; None where they can, or nobody knows who will reply."""
    model = model_for(context, identity) if identity.policy.budget is not None else None
    if model is None or context.price(model) is not None:
        return None
    tells = not context.agent(identity).capabilities.transcript and model == before.model
    return None if tells and head is not None and head.usage.cost is not None else model


def used_up(context: Context, found: Found, policy: RunPolicy) -> Reached | None:
    """The limit for which it would be halted before it did anything."""
    return reached(policy, found.whole_head(), now_us=context.clock.now_us())


def against(context: Context, found: Found, limits: Allowance = NO_ALLOWANCE) -> list[Reason]:
    """For a plan: what of its limits keeps a session from going on, and how to allow it."""
    identity, policy = found.identity, policy_with(context, found.identity, limits)
    begins = found.seq is not None and found.seq != found.whole_head().head  # a fork counts from its own beginning
    limit = None if begins else used_up(context, found, policy)
    if limit is not None:
        return [Reason(code=f"{limit.limit}_reached", text=limit.why, cure=_raised(identity, limit.limit))]
    limited = msgspec.structs.replace(identity, policy=policy)
    model = _unpriced(context, limited, found.head, identity)
    if model is not None:
        return [Reason(code=NO_PRICE, text=_no_budget(model), cure=_raised(identity, "budget_tokens"))]
    if (limits.budget is not None or limits.budget_tokens is not None) and not _tells(context, found):
        return [Reason(code=NO_USAGE, text=_SILENT, cure=_raised(identity, "time_limit"))]
    return []


def refuse(context: Context, found: Found, limits: Allowance) -> None:
    """What a start would be refused for, before anything is touched. NotResumable where it is the session's own limit
    that is used up or cannot be counted, UsageError where it is one that was given just now."""
    for reason in against(context, found, limits):
        name = found.identity.name or found.identity.id[:8]
        if reason.code == NO_USAGE:
            raise UsageError(reason.text, hints=[f"limit its time instead: {reason.cure}"])
        if reason.code != NO_PRICE:
            raise NotResumable(name, reason.text, hints=[f"allow more: {reason.cure}"])
        hints = [f"limit tokens instead: {reason.cure}", _A_PRICE]
        if limits.budget is not None:
            raise UsageError(reason.text, hints=hints)
        raise NotResumable(name, reason.text, hints=hints)


def _tells(context: Context, found: Found) -> bool:
    """Does its program tell what it uses? It did, or is of a kind that does."""
    identity, head = found.identity, found.whole_head()
    if identity.command is None or identity.policy.counts_usage or identity.policy.library:
        return True
    if head.usage.tokens or head.usage.cost or head.turns or context.agent(identity).capabilities.transcript:
        return True
    return context.uses_library(identity.command, identity.directory or ".")


def _raised(identity: Identity, limit: str) -> str:
    name = identity.name or identity.id[:8]
    if identity.command is None:
        return f"rl.session({name!r}, {limit}=N)"
    return f"relight resume {name} --{limit.replace('_', '-')} N"


def _no_budget(model: str) -> str:
    return f"no price is known for the model {model}, so a budget in money cannot be counted"


NO_PRICE: Final = "no_price"
NO_USAGE: Final = "no_usage"
_SILENT: Final = "this program does not tell what it uses, so a budget cannot be held"
_A_PRICE: Final = "or give it a price: RELIGHT_PRICES=FILE"
