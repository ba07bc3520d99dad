"""The parts of a running server, as a dependency of every route. Built by `create_app`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Depends, Request

from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.server.actions import ActionRunner
from relight.server.http.guard import Guard
from relight.server.jobs.callbacks import Callbacks
from relight.server.jobs.upkeep import Upkeep
from relight.server.live.fold_cache import FoldCache
from relight.server.live.streams import Hub
from relight.server.metrics import Metrics
from relight.server.resume_stats import ResumeStats
from relight.server.settings import ServerSettings
from relight.server.starting import Starter
from relight.server.state import ServerState
from relight.server.usage_totals import UsageTotals


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """The library and the components of one server."""

    rl: Relight
    guard: Guard
    settings: ServerSettings
    clock: Clock
    state: ServerState
    actions: ActionRunner
    """runs every change: plan hash, idempotency key, audit log"""
    starter: Starter
    hub: Hub
    callbacks: Callbacks
    metrics: Metrics
    folds: FoldCache
    """cache of folded sessions, shared by all requests"""
    resume_stats: ResumeStats
    usage_totals: UsageTotals
    """cost and tool calls of all sessions, read step by step"""
    upkeep: Upkeep
    """results of the daily verification and restore drill"""


def service_of(request: Request) -> Service:
    """The service of the application that handles a request."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


Served = Annotated[Service, Depends(service_of)]
