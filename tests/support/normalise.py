"""Make a conversation one that its provider accepts: every call has exactly one result, in its place.

Pairing: a result answers the newest call of its id before it; calls of one reply that share an id are
answered in order. The first result wins, a result without such a call is dropped, a call without a result
gets the one that is given for it, or one that says that the outcome is unknown. The results of a reply stand
directly after it, in call order and in the provider's own grouping. Nothing else is touched: messages keep
their order, and those that need no change are the same objects. A valid history comes back equal, and
normalising twice changes nothing more.

Ids are kept, because the journal's effects are found by them; a model that gives one id twice is paired by
position here and named by `lint` (relight.testing.conversation), which checks the outcome by other means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from relight.journal.formats.format import CallSite, Format, ProviderDict, ToolResult
from relight.journal.formats.registry import detect
from relight.values.call import OUTCOME_UNKNOWN

_NO_RESULTS: Final[Mapping[str, ToolResult]] = {}


class _Reply:
    """The calls of one reply while their results are being found."""

    __slots__ = ("fragments", "last", "sites")

    def __init__(self) -> None:
        self.last = -1
        """index of the message with its last call"""
        self.sites: list[CallSite] = []
        self.fragments: list[ProviderDict | None] = []


class _Pairing:
    """Which result answers which call; filled in one walk over the messages."""

    def __init__(self, format: Format, messages: Sequence[ProviderDict]) -> None:
        self.replies: list[_Reply] = []
        self.rests: dict[int, ProviderDict | None] = {}
        """what is left of the messages that carried results, by index"""
        self._open: dict[str, list[tuple[_Reply, int]]] = {}
        reply: _Reply | None = None
        for index, message in enumerate(messages):
            if sites := format.calls(message):
                reply = self._ask(reply if format.spans else None, index, sites)
            elif format.answers(message):
                reply = None
                self._answer(format, index, message)
            elif not format.is_assistant(message):
                reply = None

    def _ask(self, reply: _Reply | None, index: int, sites: tuple[CallSite, ...]) -> _Reply:
        if reply is None:
            reply = _Reply()
            self.replies.append(reply)
        reply.last = index
        for site in sites:
            slot = (reply, len(reply.sites))
            reply.sites.append(site)
            reply.fragments.append(None)
            waiting = self._open.get(site.id)
            if waiting and waiting[0][0] is reply:
                waiting.append(slot)
            else:
                self._open[site.id] = [slot]
        return reply

    def _answer(self, format: Format, index: int, message: ProviderDict) -> None:
        fragments, self.rests[index] = format.split(message)
        for call, fragment in fragments:
            if waiting := self._open.get(call):
                reply, position = waiting.pop(0)
                reply.fragments[position] = fragment


def open_calls(messages: Sequence[ProviderDict], format: Format | None = None) -> list[CallSite]:
    """The calls that have no result, in order."""
    pairing = _Pairing(format or detect(messages), messages)
    return [
        site
        for reply in pairing.replies
        for site, fragment in zip(reply.sites, reply.fragments, strict=True)
        if fragment is None
    ]


def normalise(
    messages: Sequence[ProviderDict],
    unknown: str = OUTCOME_UNKNOWN,
    results: Mapping[str, ToolResult] = _NO_RESULTS,
    format: Format | None = None,
) -> list[ProviderDict]:
    """The same conversation with every call answered once, in its place. `results` fill gaps, by call id."""
    format = format or detect(messages)
    pairing = _Pairing(format, messages)
    replies = {reply.last: reply for reply in pairing.replies}
    rests = pairing.rests
    history: list[ProviderDict] = []
    for index, message in enumerate(messages):
        if index in rests:
            rest = rests[index]
            if rest is not None:
                history.append(rest)
            continue
        history.append(message)
        if reply := replies.get(index):
            carrier = messages[index + 1] if index + 1 in rests else None
            if carrier is not None:
                rests[index + 1] = None  # what is left of it stays with the results
            history.extend(format.join(_filled(reply, format, unknown, results), carrier))
    return history


def _filled(reply: _Reply, format: Format, unknown: str, results: Mapping[str, ToolResult]) -> list[ProviderDict]:
    """The results of a reply, those that are missing made up."""

    def made_up(site: CallSite) -> ProviderDict:
        given = results.get(site.id)
        known = site.result(given.content, given.status) if given else site.result(unknown, "unknown")
        return format.fragment(known)

    pairs = zip(reply.sites, reply.fragments, strict=True)
    return [made_up(site) if fragment is None else fragment for site, fragment in pairs]
