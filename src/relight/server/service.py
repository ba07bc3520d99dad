"""What every route is handed: the library, the guard, and the parts of a running server. Made by `create_app`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Depends, Request

from relight.engine.library import Relight
from relight.ports.clock import Clock
from relight.server.acting import Acting
from relight.server.callbacks import Callbacks
from relight.server.folds import Folds
from relight.server.guard import Guard
from relight.server.metrics import Metrics
from relight.server.settings import ServerSettings
from relight.server.starting import Starter
from relight.server.state import ServerState
from relight.server.stories import Stories
from relight.server.streams import Hub
from relight.server.upkeep import Upkeep


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One server."""

    rl: Relight
    guard: Guard
    settings: ServerSettings
    clock: Clock
    state: ServerState
    acting: Acting
    """every change goes through it: plan hash, idempotency key, audit"""
    starter: Starter
    hub: Hub
    callbacks: Callbacks
    metrics: Metrics
    folds: Folds
    """sessions as folded, shared by who reads them"""
    stories: Stories
    """how resumes went"""
    upkeep: Upkeep
    """what the daily look at the store found"""


def service_of(request: Request) -> Service:
    """The server a request has reached."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


Served = Annotated[Service, Depends(service_of)]
