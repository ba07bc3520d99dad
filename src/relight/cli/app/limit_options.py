"""Options of `run` and `resume` that limit what a session may use, and the exit code of a halted run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from relight.errors import UsageError
from relight.journal.limits import is_limit
from relight.sessions.limits import allowance
from relight.values.info import SessionInfo
from relight.values.policy import NO_ALLOWANCE, Allowance

EXIT_CODE: Final = 6
"""of a run that was halted at a limit"""
_OVER_0: Final = click.FloatRange(min=0, min_open=True)


def limit_options(command: Callable[..., int]) -> Callable[..., int]:
    """`--budget`, `--budget-tokens` and `--time-limit`, given to the command as one value `limits`."""

    @functools.wraps(command)
    def limited(
        *args: Any, budget: float | None, budget_tokens: int | None, time_limit: float | None, **options: Any
    ) -> int:
        limits = allowance(budget=budget, budget_tokens=budget_tokens, time_limit=time_limit)
        return command(*args, limits=limits, **options)

    options_by_flag = {
        "--time-limit": (_OVER_0, "SECONDS", "Halt after this much working time, over all attempts."),
        "--budget-tokens": (click.IntRange(min=1), "N", "Halt after this many tokens."),
        "--budget": (_OVER_0, "COST", "Halt at this cost, in US dollars."),
    }
    for flag, (kind, metavar, text) in options_by_flag.items():
        click.option(flag, type=kind, metavar=metavar, help=text)(limited)
    return limited


def for_one(limits: Allowance, *, everything: bool) -> None:
    """UsageError if limits are combined with --all."""
    if everything and limits != NO_ALLOWANCE:
        raise UsageError("a limit applies to one session: name it")


def exit_code(info: SessionInfo, program: int) -> int:
    """The program's exit code, or EXIT_CODE if a limit halted it."""
    return EXIT_CODE if info.status == "halted" and is_limit(info.failure) else program
