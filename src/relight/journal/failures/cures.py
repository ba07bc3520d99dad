"""The cure of each class: from a finding to the verdict relight acts on.

Cooldowns belong to (provider, account, model), so every verdict names them. Only a usage limit waits for hours;
transient failures are retried with increasing delays; money, credentials and refusals need a person.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.journal.extensions import EndReader
from relight.journal.failures import reset
from relight.journal.failures.finding import Finding
from relight.values.ending import Backoff, Cure, Ending, FailureClass, Scope, Verdict

_WITHOUT_RESET: Final = Backoff(first_seconds=1800, most_seconds=5 * 3600, tries=12)
"""wait for a usage limit without a known end: hours, because retries within minutes would hit it again"""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a class requires, whatever source reported it."""

    cure: Cure
    then: Cure = "ask"
    backoff: Backoff | None = None
    prompt: str | None = None
    transient: bool = False
    counts: bool = True


_POLICIES: Final[dict[FailureClass, Policy]] = {
    "ok": Policy(cure="none", then="none"),
    "usage_limit": Policy(cure="wait_until", counts=False),
    "rate_limit": Policy(
        cure="backoff", transient=True, backoff=Backoff(first_seconds=30, most_seconds=15 * 60, tries=6)
    ),
    "overloaded": Policy(
        cure="backoff", transient=True, backoff=Backoff(first_seconds=15, most_seconds=10 * 60, tries=6)
    ),
    "server_error": Policy(
        cure="backoff", transient=True, backoff=Backoff(first_seconds=15, most_seconds=10 * 60, tries=3)
    ),
    "network": Policy(
        cure="backoff", transient=True, counts=False, backoff=Backoff(first_seconds=5, most_seconds=5 * 60)
    ),
    "auth": Policy(cure="ask"),
    "billing": Policy(cure="ask"),
    "model_not_found": Policy(cure="ask"),
    "refused": Policy(cure="stop", then="stop"),
    "context": Policy(cure="resume_once"),
    "output_limit": Policy(cure="resume_once", prompt="Continue in smaller steps."),
    "max_turns": Policy(cure="resume"),
    "max_budget": Policy(cure="resume"),
    "interrupted": Policy(cure="stop", then="stop"),
    "terminated": Policy(cure="stop", then="stop"),
    "paused": Policy(cure="stop", then="stop"),
    "killed": Policy(cure="resume"),
    "crashed": Policy(cure="resume"),
    "oom": Policy(cure="resume_once"),
    "unknown": Policy(cure="backoff", backoff=Backoff(first_seconds=15, most_seconds=5 * 60, tries=2)),
}


def verdict(ending: Ending, finding: Finding, reader: EndReader | None) -> Verdict:
    """Apply the policy to a finding."""
    policy = _POLICIES[finding.kind]
    wake = None
    if _waits(finding) and finding.reset_us is not None:
        wake = reset.wake_us(finding.reset_us, ending.now_us, ending.least_wait_seconds)
    dateless = policy.cure == "wait_until" and wake is None
    return Verdict(
        kind=finding.kind,
        source=finding.source,
        scope=Scope(provider=_provider(ending, reader), account=ending.account, model=finding.model),
        text=finding.text,
        reset_us=finding.reset_us,
        reset_source=finding.reset_source,
        wake_us=wake,
        cure="backoff" if dateless else policy.cure,
        then=policy.then,
        backoff=_WITHOUT_RESET if dateless else policy.backoff,
        prompt=reader.CONTEXT_PROMPT if reader is not None and finding.kind == "context" else policy.prompt,
        transient=policy.transient,
        counts=policy.counts,
        fields={**finding.fields, **_blind_retry(finding)},
    )


def _waits(finding: Finding) -> bool:
    """Usage limits, and an account whose credit returns at a known time: the person is offered to wait."""
    return finding.kind in {"usage_limit", "billing"}


def _blind_retry(finding: Finding) -> dict[str, int]:
    """An OAuth token may have been refreshed by another process: one 401 about it may be retried without asking."""
    expired = finding.kind == "auth" and finding.fields.get("status") == 401 and "oauth" in finding.text.lower()
    return {"blind_retries": 1} if expired else {}


def _provider(ending: Ending, reader: EndReader | None) -> str:
    return ending.provider or (reader.PROVIDER if reader is not None else ending.agent)
