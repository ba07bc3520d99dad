"""`relight doctor --prices`: the price table of models and its sources."""

from __future__ import annotations

from typing import Any

import msgspec

from relight import wiring
from relight.cli.app.context import CliContext
from relight.journal.prices import DATED, SOURCES, TABLE, Price


def print_prices(cli: CliContext, *, as_json: bool) -> int:
    """Print one row per model; prices from RELIGHT_PRICES first."""
    own = wiring.own_prices()
    rows = [(name, price, "RELIGHT_PRICES") for name, price in own.items()]
    rows += [(name, price, DATED) for name, price in TABLE.items() if name not in own]
    console = cli.console
    if as_json:
        models = {name: {"source": source, **_fields(price)} for name, price, source in rows}
        console.document({"dated": DATED, "sources": list(SOURCES), "unit": "US dollars a million", "models": models})
        return 0
    if console.out.terminal:
        console.write([[f"US dollars for a million tokens: input, output, cache read, cache write; as of {DATED}"], []])
        width = max(len(name) for name, _, _ in rows)
        for name, price, source in rows:
            numbers = "".join(f"{value:>9.3f}" for value in _numbers(price))
            console.write([[f"{name:<{width}}{numbers}{'' if source == DATED else '  yours'}"]])
        console.write([[f"from {source}"] for source in SOURCES])
        return 0
    for name, price, source in rows:
        console.row((name, *(f"{value:g}" for value in _numbers(price)), source))
    return 0


def _numbers(price: Price) -> tuple[float, float, float, float]:
    return price.input, price.output, price.cache_read, price.cache_write


def _fields(price: Price) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(price)
    return {name: value for name, value in fields.items() if value is not None}
