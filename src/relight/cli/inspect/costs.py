"""What `relight list --costs` prints: the totals of the sessions that match, as the page of costs shows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from relight.cli.render.table import Column, table
from relight.server.usage_totals import UsageTotals, sentence, totals_document
from relight.text import format as words

if TYPE_CHECKING:
    from relight.cli.app.context import CliContext
    from relight.library.facade import Relight
    from relight.values.info import SessionInfo

DAYS: Final = 30
"""how far back without `--since`"""
_READ_SECONDS: Final = 60.0
"""steps that are not read by then are reported as not counted"""
_TABLES: Final = (("DAY", "by_day"), ("MODEL", "by_model"), ("AGENT", "by_agent"), ("LABEL", "by_label"))


def print_costs(cli: CliContext, rl: Relight, found: Iterable[SessionInfo], since: datetime, *, as_json: bool) -> None:
    """Print what these sessions cost, by day, model, agent, label and tool."""
    console, days = cli.console, max(1, round((cli.now() - since).total_seconds() / 86400))
    totals = totals_document(UsageTotals(rl).over(found, since, days, seconds=_READ_SECONDS))
    if as_json:
        console.document(totals)
        return
    if not console.out.table:
        for name, key in _TABLES:
            for one in totals[key]:
                console.row((name.lower(), one["name"], f"{one['cost']:.6f}", str(one["tokens"]), str(one["replies"])))
        for one in totals["tools"]:
            console.row(("tool", one["name"], f"{one['cost']:.6f}", str(one["calls"]), str(one["errors"])))
        return
    console.write([[sentence(totals)]])
    for name, key in _TABLES:
        if totals[key]:
            columns = [Column(name, least=12), *(Column(one, right=True) for one in ("COST", "TOKENS", "REPLIES"))]
            rows: list[Any] = [_spent(one) for one in totals[key]]
            console.write([[""], *table(columns, rows, console.out)])
    if totals["tools"]:
        titles = ("CALLS", "ERRORS", "P50", "P95", "COST (ESTIMATE)")
        columns = [Column("TOOL", least=12), *(Column(one, right=True) for one in titles)]
        console.write([[""], *table(columns, [_tool(one) for one in totals["tools"]], console.out)])


def _spent(one: dict[str, Any]) -> list[Any]:
    return [one["name"], words.money(one["cost"]), words.tokens(one["tokens"]), f"{one['replies']:,}"]


def _tool(one: dict[str, Any]) -> list[Any]:
    times = [words.duration(one[name]) if one[name] is not None else "-" for name in ("p50", "p95")]
    return [one["name"], f"{one['calls']:,}", f"{one['errors']:,}", *times, words.money(one["cost"])]
