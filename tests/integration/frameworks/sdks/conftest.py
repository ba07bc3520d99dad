"""A strict model server, and what every way of handing over a reply is asked to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import relight
from relight.aio import AsyncRelight
from tests.support.fake_model import FakeModel
from tests.support.simulation import Simulation

USAGE = {"input_tokens": 100, "cached": 800, "written": 50, "output_tokens": 25, "reasoning": 7}
SCRIPT: list[dict[str, Any]] = [
    {"text": "I look.", "thinking": "hm", "usage": USAGE, "calls": [{"name": "look", "input": {"city": "Oslo"}}]},
    {"usage": USAGE, "calls": [{"name": "look", "input": {"city": city}} for city in ("Rome", "Bern")]},
    {"text": "Oslo, Rome and Bern are fine.", "usage": USAGE},
    {"text": "You are welcome.", "usage": USAGE},
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
def server() -> Iterator[FakeModel]:
    """Answers 400 to what the real ones would refuse."""
    with FakeModel(script=SCRIPT, exact=True) as running:
        yield running


class Clients:
    """The client of one SDK for one run, and model functions that use it. It is closed at the end of the run."""

    def __init__(self, sdk: Any, url: str, key: str, is_async: bool) -> None:
        # Without a context for TLS, which takes longer to load than everything else here.
        http = (sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient)(verify=False)
        kind = sdk.__dict__[("Async" if is_async else "") + self._name]
        self._client = kind(base_url=url, api_key=key, max_retries=0, http_client=http)

    _name = ""
    _provider: str | None = None
    """of the session, where the form of its prompts has to be known before the first reply"""
    _written = USAGE["written"]
    """tokens that were written to the provider's cache, as it counts them"""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


Make = Callable[[str, bool], Clients]


def ways(kind: type[Clients]) -> list[str]:
    """The names of its model functions."""
    return [name for name in vars(kind) if not name.startswith("_")]


def converse(make: Make, way: str, server: FakeModel) -> None:
    """Three turns with tools, killed in the second one, and another prompt: nothing is refused, run twice or lost."""
    world = Simulation()
    ran: list[str] = []

    def look(city: str) -> str:
        ran.append(city)
        if city == "Rome" and ran.count(city) == 1:  # by name: the two of a reply begin in either order
            raise KeyboardInterrupt
        return f"{city} is fine"

    run = partial(
        _run, world, partial(make, server.url, way.startswith("async_")), way, relight.tool(effect="idempotent")(look)
    )
    with pytest.raises(KeyboardInterrupt):
        run("Look at the cities")
    assert run("Look at the cities") == ("Oslo, Rome and Bern are fine.", 3)
    assert sorted(ran) == ["Bern", "Oslo", "Rome", "Rome"]
    assert run("Thanks") == ("You are welcome.", 4)
    assert [request.problem for request in server.requests() if request.problem] == []


def _run(world: Simulation, make: Callable[[], Clients], way: str, tool: Any, prompt: str) -> tuple[Any, int]:
    """Run the agent in a new process; its result, and how many replies its usage says were paid."""
    if way.startswith("async_"):
        result, used, written = asyncio.run(_run_async(world, make, way, tool, prompt))
    else:
        with make() as clients, world.restart().session("agent", provider=clients._provider) as s:
            result, used = s.run(getattr(clients, way), tools=[tool], prompt=prompt), s.usage
            written = clients._written
    replies = used.input_tokens // USAGE["input_tokens"]
    assert used.cache_read_tokens == replies * USAGE["cached"]
    assert used.cache_write_tokens == replies * written
    assert used.output_tokens == replies * USAGE["output_tokens"]
    return result, replies


async def _run_async(world: Simulation, make: Callable[[], Clients], way: str, tool: Any, prompt: str) -> Any:
    async with make() as clients, await AsyncRelight(world.restart()).session("agent", provider=clients._provider) as s:
        model = getattr(clients, way)
        return await s.run(model, tools=[tool], prompt=prompt), s.usage, clients._written
