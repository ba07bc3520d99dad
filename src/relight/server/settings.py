"""The numbers of a server: where it listens, what it takes, how long it waits. All of them have a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT: Final = 7878


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one server behaves."""

    directory: Path
    """of its own: token, audit log, callbacks, answers by key; only the user's"""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    secure: bool = False
    """reached over TLS"""
    hosts: tuple[str, ...] = LOOPBACK
    """names under which it may be addressed; the Host header must hold one of them"""
    shared_host: bool = False
    """logins count at 127.0.0.1 and localhost too, where every other server of this machine is sent their cookie"""
    any_address: bool = False
    """it may also be addressed by number: nobody can bind a number to another address"""
    body_bytes: int = 256 * 1024
    """most a request may bring"""
    head_seconds: float = 30.0
    """within which a request has to have begun"""
    body_seconds: float = 30.0
    """within which a request has to be there"""
    prompt_bytes: int = 100_000
    """a prompt is an argument of a process, which has a bound of its own"""
    rate_per_second: float = 100.0
    rate_burst: int = 400
    failures_per_second: float = 20.0
    """wrong tokens and codes, by address: so that nobody keeps the server busy; a secret of 32 bytes is not guessed"""
    failures_burst: int = 1000
    streams: int = 5000
    """event streams at once"""
    heartbeat_seconds: float = 15.0
    send_seconds: float = 30.0
    """a client that takes nothing for so long is dropped"""
    ring: int = 512
    """events of a session kept in memory for all who follow it; who is further behind reads the store"""
    poll_seconds: float = 0.1
    callback_allow: tuple[str, ...] = ()
    """host names, addresses or networks that a callback may reach although they are not public"""
    callback_seconds: float = 10.0
    callback_tries: int = 8
    callback_first_seconds: float = 1.0
    login_days: float = 7.0
    code_seconds: float = 60.0
    replies_days: float = 1.0
    """answers under an idempotency key are kept so long"""
    most_actions: int = 100_000
    """audit entries that are kept; the oldest go"""
    sweep: bool = True
    """take part in the daily sweep, where the store has a retention policy"""
    upkeep: bool = True
    """every digest is read, and a restore tried, once a day"""
    log: Literal["text", "json"] = "text"
