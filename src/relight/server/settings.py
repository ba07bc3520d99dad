"""Settings and limits of one server."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT: Final = 7878


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, what it accepts, how long it waits. Every resource has a bound."""

    directory: Path
    """the server's private directory: token, audit log, callbacks, responses by idempotency key"""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    secure: bool = False
    """reached over TLS"""
    hosts: tuple[str, ...] = LOOPBACK
    """allowed values of the Host header"""
    shared_host: bool = False
    """accept logins at 127.0.0.1 and localhost too, although browsers send that cookie to every local server"""
    any_address: bool = False
    """allow IP addresses as Host too: DNS rebinding needs a name"""
    body_bytes: int = 256 * 1024
    """maximum size of a request body"""
    head_seconds: float = 30.0
    """timeout for the request head"""
    body_seconds: float = 30.0
    """timeout for the request body"""
    prompt_bytes: int = 100_000
    """maximum size of a prompt: it becomes a command-line argument, which the kernel limits to 128 KiB"""
    rate_per_second: float = 100.0
    rate_burst: int = 400
    failures_per_second: float = 20.0
    """invalid tokens and codes per address; limits load, since a secret of 32 bytes cannot be guessed anyway"""
    failures_burst: int = 1000
    streams: int = 5000
    """maximum number of open event streams"""
    heartbeat_seconds: float = 15.0
    send_seconds: float = 30.0
    """a stream whose client reads nothing for this long is dropped"""
    ring: int = 512
    """events per session kept in memory for its streams; a client further behind is served from the store"""
    poll_seconds: float = 0.1
    callback_allow: tuple[str, ...] = ()
    """host names, addresses or networks that callbacks may reach although they are not public"""
    callback_seconds: float = 10.0
    callback_tries: int = 8
    callback_first_seconds: float = 1.0
    login_days: float = 7.0
    code_seconds: float = 60.0
    replies_days: float = 1.0
    """how long responses are stored under their idempotency key"""
    max_actions: int = 100_000
    """audit entries; the oldest beyond are deleted"""
    sweep: bool = True
    """take part in the daily sweep if the store has a retention policy"""
    upkeep: bool = True
    """verify every digest and try restores once a day"""
    log: Literal["text", "json"] = "text"
