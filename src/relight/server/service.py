"""What every route is handed: the library, the guard, and the parts of a running server. Made by `create_app`."""

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
from relight.server.live.folds import Folds
from relight.server.live.streams import Hub
from relight.server.metrics import Metrics
from relight.server.resume_stats import ResumeStats
from relight.server.settings import ServerSettings
from relight.server.starting import Starter
from relight.server.state import ServerState


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One server."""

    rl: Relight
    guard: Guard
    settings: ServerSettings
    clock: Clock
    state: ServerState
    acting: ActionRunner
    """every change goes through it: plan hash, idempotency key, audit"""
    starter: Starter
    hub: Hub
    callbacks: Callbacks
    metrics: Metrics
    folds: Folds
    """sessions as folded, shared by who reads them"""
    stories: ResumeStats
    """how resumes went"""
    upkeep: Upkeep
    """what the daily look at the store found"""


def service_of(request: Request) -> Service:
    """The server a request has reached."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


Served = Annotated[Service, Depends(service_of)]
