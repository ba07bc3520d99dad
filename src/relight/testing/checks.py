"""Shared by the conformance kits: a check is a function whose docstring states the requirement; reports and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

Check = TypeVar("Check", bound=Callable[..., None])


class PromiseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check of a kit."""

    check: str
    promise: str
    problem: str | None
    """None: the check passed"""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Results of all checks of a run."""

    outcomes: tuple[PromiseResult, ...]

    @property
    def broken(self) -> tuple[PromiseResult, ...]:
        """The results of the failed checks."""
        return tuple(outcome for outcome in self.outcomes if outcome.problem is not None)

    def __str__(self) -> str:
        lines = [f"{len(self.outcomes) - len(self.broken)} of {len(self.outcomes)} promises kept"]
        lines += [f"  {outcome.check}: {outcome.promise}\n    {outcome.problem}" for outcome in self.broken]
        return "\n".join(lines)


def report_of(checks: Iterable[Check], attempt: Callable[[Check], None]) -> Report:
    """Run every check; a failure ends its check, not the run."""
    return Report(outcomes=tuple(_outcome(check, attempt) for check in checks))


def _outcome(check: Check, attempt: Callable[[Check], None]) -> PromiseResult:
    problem = None
    try:
        attempt(check)
    except Exception as error:  # the store under test may raise anything: report it and continue
        problem = f"{type(error).__name__}: {error}"
    return PromiseResult(check=check.__name__, promise=(check.__doc__ or "").strip(), problem=problem)


def add_tests(kit: type, checks: Iterable[Check], attempt: Callable[[Any, Check], None]) -> None:
    """Add one pytest test per check to a class; a test that the class already has is kept."""
    for check in checks:
        name = f"test_{check.__name__}"
        if not hasattr(kit, name):
            setattr(kit, name, _as_test(check, attempt))


def _as_test(check: Check, attempt: Callable[[Any, Check], None]) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        attempt(self, check)

    test.__doc__ = check.__doc__
    return test
