"""LangGraph's own conformance suite, which nobody here wrote: every capability, every test, on three stores.

It calls the asynchronous methods only, so it runs a second time over a saver whose asynchronous methods are the
synchronous ones of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.conformance import validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer

from relight.frameworks.langgraph import RelightSaver
from tests.integration.frameworks.conftest import Open
from tests.support.figures import Figure

LEAST_TESTS = 75


class Synchronous(RelightSaver):
    """Awaited, but through the synchronous methods."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **given: Any) -> AsyncIterator[Any]:
        for one in self.list(config, **given):
            yield one

    async def aput(self, *given: Any) -> Any:
        return self.put(*given)

    async def aput_writes(self, *given: Any, **named: Any) -> None:
        self.put_writes(*given, **named)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, *given: Any) -> None:
        self.copy_thread(*given)

    async def aprune(self, thread_ids: Any, **given: Any) -> None:
        self.prune(thread_ids, **given)


@pytest.mark.parametrize("kind", [RelightSaver, Synchronous])
def test_every_capability_is_there_and_every_test_of_it_passes(
    fresh: Open, kind: type[RelightSaver], figure: Figure
) -> None:
    async def savers() -> AsyncIterator[RelightSaver]:
        yield kind(fresh())

    report = asyncio.run(validate(RegisteredCheckpointer(name=kind.__name__, factory=savers)))  # type: ignore[arg-type]
    assert set(report.results) == {one.value for one in Capability}
    failures = {name: found.failures for name, found in report.results.items() if not found.passed}
    assert failures == {}
    passed = sum(found.tests_passed for found in report.results.values())
    assert passed >= LEAST_TESTS
    figure("G2", f"LangGraph's conformance suite, {kind.__name__}: {len(report.results)} capabilities, {passed} tests")
