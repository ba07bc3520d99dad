"""Builds the FastAPI application: middleware, routes, and the background jobs that run while the server is up.

    OuterMiddleware (headers, log, metrics, last resort)  ->  CompressionMiddleware  ->  GuardMiddleware  ->  routes

Agents never run inside the server: each is started as a process of its own (starting.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.server.actions import ActionRunner
from relight.server.api import (
    actions,
    bulk,
    checkpoints,
    costs,
    events,
    export,
    health,
    login,
    operations,
    push,
    runs,
    search,
    session_reading,
    session_writing,
    sessions,
    statistics,
    token,
)
from relight.server.http import openapi, problems
from relight.server.http.compression import CompressionMiddleware
from relight.server.http.frame import OuterMiddleware
from relight.server.http.gone import removed_problem
from relight.server.http.guard import Guard, GuardMiddleware
from relight.server.jobs.callbacks import Callbacks
from relight.server.jobs.housekeeping import Housekeeping
from relight.server.jobs.upkeep import Upkeep
from relight.server.live.fold_cache import FoldCache
from relight.server.live.streams import Hub
from relight.server.metrics import Metrics
from relight.server.pages import router as pages
from relight.server.resume_stats import ResumeStats
from relight.server.service import Service
from relight.server.settings import ServerSettings
from relight.server.starting import Starter
from relight.server.state import ServerState
from relight.server.timed_store import time_captures
from relight.server.tokens import Tokens
from relight.server.usage_totals import UsageTotals
from relight.system.machine import SystemClock


def make_guard(settings: ServerSettings, clock: Clock | None = None) -> Guard:
    """The guard over the server's state file, which is created if missing."""
    clock = clock or SystemClock()
    return Guard(Tokens(ServerState(settings.directory), clock), settings, clock)


def create_app(
    rl: Relight,
    *,
    guard: Guard,
    settings: ServerSettings,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """The application over an open store, which the caller closes. `metrics`: those passed to `time_commits`."""
    service = _service(rl, guard, settings, clock or SystemClock(), metrics or Metrics())
    app = FastAPI(
        title="relight",
        version=version("relight"),
        summary="See, resume, fork and clear the sessions of AI agents.",
        lifespan=_lifespan(service),
        docs_url=None,  # FastAPI's pages load scripts from another site, which the CSP forbids
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=lambda route: route.name,  # operation ids: names of functions, and kept by a test
        # What it would report by itself is not redacted: addresses, parsed bodies, tracebacks.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        redirect_slashes=False,  # one path per route, so that the guard's list of open paths is exact
    )
    app.state.service = service
    problems.install(app)
    for noun in (health, login, sessions, session_reading, session_writing, checkpoints, runs, events):
        app.include_router(noun.router)
    for noun in (actions, costs, export, operations, push, search, bulk, statistics, token):
        app.include_router(noun.router)
    openapi.install(app)
    app.include_router(pages.pages(service), include_in_schema=False)
    app.state.error_page = pages.error_page
    app.state.removed = removed_problem
    # Starlette runs the middleware that was added last first: OuterMiddleware wraps the others.
    app.add_middleware(GuardMiddleware, guard=guard)
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(OuterMiddleware, metrics=service.metrics, secure=settings.secure)
    return app


def _service(rl: Relight, guard: Guard, settings: ServerSettings, clock: Clock, metrics: Metrics) -> Service:
    state = guard.tokens.state
    rl = time_captures(rl, metrics)
    metrics.bind(rl)
    callbacks = Callbacks(rl, state, settings, clock)
    return Service(
        rl=rl,
        guard=guard,
        settings=settings,
        clock=clock,
        state=state,
        actions=ActionRunner(rl, state, settings, clock),
        starter=Starter(rl, callbacks),
        hub=Hub(rl, settings, metrics),
        callbacks=callbacks,
        metrics=metrics,
        folds=FoldCache(rl),
        resume_stats=ResumeStats(rl),
        usage_totals=UsageTotals(rl),
        upkeep=Upkeep(rl, state, settings, clock),
    )


def _lifespan(service: Service) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        housekeeping = Housekeeping(service)
        service.hub.start(asyncio.get_running_loop())
        housekeeping.start()
        service.upkeep.start()
        try:
            yield
        finally:
            service.hub.stop()
            await asyncio.to_thread(service.hub.join)
            await asyncio.to_thread(housekeeping.stop)
            await asyncio.to_thread(service.upkeep.stop)

    return lifespan
