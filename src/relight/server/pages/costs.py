"""View of `/costs`: where the money went, how tools, provider limits and queues are, how the store grows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.server.api.costs import costs_document
from relight.server.pages.history import position
from relight.server.pages.operations import store_facts, upkeep_facts
from relight.server.pages.rendering import answer
from relight.server.pages.site import Site
from relight.server.usage_totals import sentence
from relight.text import format as words

PERIODS: Final = (1, 7, 30, 90)
_WIDTH: Final = 900
_HEIGHT: Final = 136
_BASE: Final = 120
"""below it are the days"""
_MAX_ROWS: Final = 50


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A day in the plot."""

    day: str
    cost: str
    x: float
    y: float
    width: float
    height: float
    title: str


def columns_of(days: list[dict[str, Any]]) -> list[Column]:
    """One column for each day with a cost."""
    highest = max((one["cost"] for one in days), default=0.0) or 1.0
    every = max(1, round(len(days) / 10))
    step = _WIDTH / max(len(days), 10)
    made = []
    for number, one in enumerate(days):
        height = round((_BASE - 14) * one["cost"] / highest, 1)
        is_named = number % every == 0
        title = f"{one['name']}: {words.money(one['cost'])}, {words.tokens(one['tokens'])} tokens"
        x, width = round(number * step + step * 0.15, 1), round(step * 0.7, 1)
        made.append(
            Column(
                day=one["name"][5:] if is_named else "",
                cost=words.money(one["cost"]) if is_named else "",
                x=x,
                y=round(_BASE - height, 1),
                width=width,
                height=max(height, 1.0),
                title=title,
            )
        )
    return made


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/costs", response_class=HTMLResponse)
    def costs(request: Request) -> Response:
        asked = position(request.query_params.get("days")) or 30
        days = asked if asked in PERIODS else 30
        values = _values(site, days, site.now())
        if request.query_params.get("part"):
            return answer("costs_body.html", **values)
        return site.page(request, "costs.html", nav="costs", **values)


def _values(site: Site, days: int, now: datetime) -> dict[str, Any]:
    found = costs_document(site.service, days)
    tables = [
        (title, found[key][:_MAX_ROWS], len(found[key]))
        for title, key in (("Model", "by_model"), ("Agent", "by_agent"), ("Label", "by_label"))
    ]
    return {
        "days": days,
        "periods": PERIODS,
        "found": found,
        "sentence": sentence(found),
        "columns": columns_of(found["by_day"]),
        "width": _WIDTH,
        "height": _HEIGHT,
        "tables": tables,
        "limits": [{**one, "until": datetime.fromisoformat(one["until"])} for one in found["limits"]],
        "facts": store_facts(site.rl) + upkeep_facts(site.service.upkeep, now),
        "retention": words.policy_text(site.rl.admin.retention()),
    }
