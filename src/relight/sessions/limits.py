"""Limits of money, tokens and time for a program's own session, and whether a limit can be enforced at all.

What is used up is decided in journal/limits.py. The library stops the program itself: `loop` before it calls the model,
`append` with the reply that reached the limit, which is stored. Coding agents: supervision/start.py. The supervisor
stops programs that do neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relight.errors import LimitReached, NotResumable, UsageError
from relight.journal.limits import Reached, overtime_before, raised
from relight.sessions.tree_budgets import TreeBudgets
from relight.values.info import Reason
from relight.values.policy import NO_ALLOWANCE, Allowance, RunPolicy
from relight.values.session import Head, Identity
from relight.values.usage import Usage

if TYPE_CHECKING:
    from relight.history.loading import Found
    from relight.ports.agent import AgentAdapter, Surroundings
    from relight.sessions.context import Context

# -- programs of one's own ------------------------------------------------------------------------------------------


def allowance(*, budget: Any = None, budget_tokens: Any = None, time_limit: Any = None) -> Allowance:
    """Limits from user input. UsageError if one is invalid."""
    given = {"budget": budget, "budget_tokens": budget_tokens, "time_limit": time_limit}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise UsageError(f"{name} must be a number above 0, not {value!r}")
    if budget_tokens is not None and budget_tokens != int(budget_tokens):
        raise UsageError(f"budget_tokens must be a whole number of tokens, not {budget_tokens!r}")
    return Allowance(
        budget=budget, budget_tokens=int(budget_tokens) if budget_tokens is not None else None, time_limit=time_limit
    )


def priced(context: Context, usage: Usage | None, model: str | None, kept_long: int = 0) -> Usage | None:
    """The usage with its cost, if the caller did not give one and the model's price is known. `kept_long`: tokens
    written to the cache for an hour, which cost more."""
    if usage is None or usage.cost is not None or not usage.tokens:
        return usage
    price = context.price(model)
    return usage if price is None else msgspec.structs.replace(usage, cost=price.cost(usage, kept_long=kept_long))


def no_price(model: str | None) -> str:
    """Why cost cannot be counted, and the alternatives."""
    which = f"no price is known for the model {model}" if model else "the model is not known"
    return f"{which}; give it one in RELIGHT_PRICES, or limit tokens instead (budget_tokens)"


# -- before a start -------------------------------------------------------------------------------------------------


def policy_with(context: Context, identity: Identity, limits: Allowance, *, model: str | None = None) -> RunPolicy:
    """The session's policy with these limits. A token limit replaces a money budget that cannot be counted, because
    nothing else could remove that budget. `model`: the model it gets with them."""
    policy = limits.on(identity.policy)
    instead = limits.budget is None and limits.budget_tokens is not None
    if not instead or policy.budget is None:
        return policy
    model = model or model_for(context, identity)
    countable = model is None or context.price(model) is not None
    return policy if countable else msgspec.structs.replace(policy, budget=None)


def model_for(context: Context, identity: Identity) -> str | None:
    """The model that a start would use: for a coding agent the configured one, else the last one."""
    adapter = context.agent(identity)
    if not adapter.capabilities.transcript:
        return identity.model
    from relight.ports.agent import Surroundings

    environment = {**context.environment, **identity.env, **context.runtime(identity).environment()}
    where = Surroundings(directory=identity.directory or ".", environment=environment)
    return adapter.model_of(context.command_of(identity), where) or identity.model


def check_enforceable(
    context: Context, adapter: AgentAdapter, command: Sequence[str], policy: RunPolicy, where: Surroundings
) -> None:
    """For a session that begins with a command: UsageError if a limit of money or tokens could not be enforced."""
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


def check_above(
    context: Context, adapter: AgentAdapter, identity: Identity, command: Sequence[str], where: Surroundings
) -> None:
    """For a child that begins with a command: LimitReached if a budget above it is used up, UsageError if an agent's
    replies could not be counted in it. A plain command spends nothing that is known, and is not refused."""
    budgets = budgets_of(context, identity)
    limit = budgets.spent(RunPolicy(), Head(session=identity.id))
    if limit is not None:
        raise LimitReached(identity.name or identity.id[:8], limit.why, cure=limit.cure)
    if adapter.capabilities.transcript:
        check_enforceable(context, adapter, command, budgets.covering(identity.policy), where)


def check_priced(context: Context, identity: Identity, head: Head | None, *, before: Identity | None = None) -> None:
    """For a program that opens its session: UsageError if its budget in money cannot be counted.

    `before`: the identity as recorded. If the same model reported its cost so far, it will continue to, with a known
    price or without.
    """
    if _unpriced(context, identity, head, before or identity) is not None:
        hints = ["limit tokens instead: rl.session(..., budget_tokens=N)", _A_PRICE]
        if before is None or before.model != identity.model:
            hints.append('or, where the program reports each cost itself (usage={"cost": ...}), leave out model')
        raise UsageError(_no_budget(identity.model or ""), hints=hints)


def _unpriced(context: Context, identity: Identity, head: Head | None, before: Identity) -> str | None:
    """The model whose replies cannot be counted in money; None if they can, or if the model is unknown."""
    covered = budgets_of(context, identity).covering(identity.policy)
    model = model_for(context, identity) if covered.budget is not None else None
    if model is None or context.price(model) is not None:
        return None
    tells = not context.agent(identity).capabilities.transcript and model == before.model
    return None if tells and head is not None and head.usage.cost is not None else model


def used_up(context: Context, found: Found, policy: RunPolicy) -> Reached | None:
    """The limit for which it would be halted before it did anything."""
    head, now_us, now = found.whole_head(), context.clock.now_us(), context.store.instant()
    spent = budgets_of(context, found.identity).spent(policy, head)
    return spent or overtime_before(policy, head, now_us=now_us, now=now)


def budgets_of(context: Context, identity: Identity) -> TreeBudgets:
    """The budgets that cover a session: its own, and those of the sessions above it."""
    return TreeBudgets(context, identity.id, identity.spawned_by)


def against(context: Context, found: Found, limits: Allowance = NO_ALLOWANCE) -> list[Reason]:
    """For a plan: which limits prevent the session from continuing, and how to raise them."""
    identity, policy = found.identity, policy_with(context, found.identity, limits)
    begins = found.seq is not None and found.seq != found.whole_head().head  # a fork counts from its own beginning
    limit = None if begins else used_up(context, found, policy)
    if limit is not None:
        cure = limit.cure or _raised(identity, limit.limit)
        return [Reason(code=f"{limit.limit}_reached", text=limit.why, cure=cure)]
    limited = msgspec.structs.replace(identity, policy=policy)
    model = _unpriced(context, limited, found.head, identity)
    if model is not None:
        return [Reason(code=NO_PRICE, text=_no_budget(model), cure=_raised(identity, "budget_tokens"))]
    if (limits.budget is not None or limits.budget_tokens is not None) and not _tells(context, found):
        return [Reason(code=NO_USAGE, text=_SILENT, cure=_raised(identity, "time_limit"))]
    return []


def refuse(context: Context, found: Found, limits: Allowance) -> None:
    """What a start would be refused for, before anything is changed. NotResumable for a limit of the session that is
    used up or cannot be counted, UsageError for a limit that was given just now."""
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
    """Whether its program reports usage: it did before, or it is of a kind that does."""
    identity, head = found.identity, found.whole_head()
    if identity.command is None or identity.policy.counts_usage or identity.policy.library:
        return True
    if head.usage.tokens or head.usage.cost or head.turns or context.agent(identity).capabilities.transcript:
        return True
    return context.uses_library(identity.command, identity.directory or ".")


def _raised(identity: Identity, limit: str) -> str:
    return raised(identity.name or identity.id[:8], limit, has_command=identity.command is not None)


def _no_budget(model: str) -> str:
    return f"no price is known for the model {model}, so a budget in money cannot be counted"


NO_PRICE: Final = "no_price"
NO_USAGE: Final = "no_usage"
_SILENT: Final = "this program does not report its usage, so a budget cannot be enforced"
_A_PRICE: Final = "or give it a price: RELIGHT_PRICES=FILE"
