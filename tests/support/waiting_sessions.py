"""Sessions that wait for somebody, each in its own way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import relight
from relight.sessions import record_log
from relight.values.status import StatusChange
from tests.support.calls import call


class Dies(BaseException):
    """A process that ends in the middle of a tool."""


@relight.tool
def send_mail(to: str) -> str:
    raise Dies


def in_doubt(rl: Any) -> str:
    """A session that waits because nobody knows whether a mail went out."""
    with pytest.raises(Dies), rl.session("in-doubt") as s:
        s.append({"role": "user", "content": "write to ada"})
        s.append(call("c1", "send_mail", '{"to": "ada"}'))
        s.run_tool(s.pending_calls()[0], [send_mail])
    with pytest.raises(relight.Waiting), rl.session("in-doubt") as s:
        s.run(lambda messages: {}, tools=[send_mail], in_doubt="wait")
    return str(s.id)


def interrupted(rl: Any) -> str:
    """A thread of a graph that waits with an interrupt, as the saver writes it."""
    made = record_log.create_log(rl._context, "backups", {"agent": "langgraph", "key": "backups"})
    made.read_new()
    made.claim(30.0)
    made.append(
        msgspec.msgpack.encode({}), "mark", status=StatusChange(status="waiting", reason="delete them?"), release=True
    )
    return str(rl.sessions.get("backups").id)
