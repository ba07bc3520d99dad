"""What the formats of agents have in common whose lines never hold more than one result."""

from __future__ import annotations

from relight.journal.formats.format import Format, OwnMessages, ProviderDict


class LineFormat(OwnMessages):
    """Base of a `Format` in which each result is a line of its own."""

    native = True


def call_key(format: Format, message: ProviderDict) -> str | None:
    """The `Entry.key` of a line with calls or results, which is the same wherever the line is written again."""
    if calls := format.calls(message):
        return "call:" + ",".join(site.id for site in calls)
    if results := format.answers(message):
        return "result:" + ",".join(results)
    return None
