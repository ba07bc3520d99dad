"""What the conformance kits share: a check is a promise in words, with a function that finds out whether it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

Check = TypeVar("Check", bound=Callable[..., None])


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check."""

    check: str
    promise: str
    problem: str | None
    """None: the promise is kept"""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All outcomes of a run."""

    outcomes: tuple[Outcome, ...]

    @property
    def broken(self) -> tuple[Outcome, ...]:
        """The promises that are not kept."""
        return tuple(outcome for outcome in self.outcomes if outcome.problem is not None)

    def __str__(self) -> str:
        lines = [f"{len(self.outcomes) - len(self.broken)} of {len(self.outcomes)} promises kept"]
        lines += [f"  {outcome.check}: {outcome.promise}\n    {outcome.problem}" for outcome in self.broken]
        return "\n".join(lines)


def report_of(checks: Iterable[Check], attempt: Callable[[Check], None]) -> Report:
    """Try every check; a broken promise ends its check, not the run."""
    return Report(outcomes=tuple(_outcome(check, attempt) for check in checks))


def _outcome(check: Check, attempt: Callable[[Check], None]) -> Outcome:
    problem = None
    try:
        attempt(check)
    except Exception as error:  # whatever somebody's own code raises: that is what the report tells
        problem = f"{type(error).__name__}: {error}"
    return Outcome(check=check.__name__, promise=(check.__doc__ or "").strip(), problem=problem)


def add_tests(kit: type, checks: Iterable[Check], attempt: Callable[[Any, Check], None]) -> None:
    """One test for every check, for pytest; a test of the same name that is there already stays."""
    for check in checks:
        name = f"test_{check.__name__}"
        if not hasattr(kit, name):
            setattr(kit, name, _as_test(check, attempt))


def _as_test(check: Check, attempt: Callable[[Any, Check], None]) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        attempt(self, check)

    test.__doc__ = check.__doc__
    return test
