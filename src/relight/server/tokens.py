"""Authentication: the server's own token, API tokens with scopes, one-time launch codes and browser logins.

Secrets are 32 random bytes, stored as SHA-256 only; the server's own token is in a private file. Comparisons take
constant time.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from relight.errors import Conflict, NotFound, UsageError
from relight.journal.redaction.recorded_fields import refuse_secret
from relight.ports.clock import Clock
from relight.server.state import ServerState
from relight.system.durable import sync_file
from relight.system.environment_secrets import redactor
from relight.values.checkpoint import at
from relight.values.ref import check_name

Scope = Literal["read", "operate", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
FILE: Final = "token"
OWN: Final = "owner"
"""name of the principal that has the server's own token"""
_PREFIX: Final = "rl_"
_BYTES: Final = 32


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated client: token name and scope."""

    name: str
    scope: Scope
    by_cookie: bool = False

    def may(self, scope: Scope) -> bool:
        """Whether the principal's scope includes the given one (read < operate < admin)."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """An API token as listed, without its value."""

    name: str
    scope: Scope
    created_at: datetime
    revoked_at: datetime | None = None


class Tokens:
    """Creates, checks and revokes the tokens, launch codes and logins of one server."""

    def __init__(self, state: ServerState, clock: Clock, *, environment: Mapping[str, str] = os.environ) -> None:
        self.state, self._clock = state, clock
        self.file = state.directory / FILE
        self._own = sha256(_own_token(self.file, environment).encode()).hexdigest()

    # -- bearer ---------------------------------------------------------------------------------------------------

    def bearer(self, token: str) -> Principal | None:
        """The principal of a bearer token; None if it is unknown or revoked."""
        given = _hashed(token)
        # All tokens are compared, also after a match: the time must not reveal which of them it was.
        found = Principal(name=OWN, scope="admin") if hmac.compare_digest(given, self._own) else None
        for name, scope, stored in self.state.rows("SELECT name, scope, hash FROM tokens WHERE revoked_us IS NULL"):
            if hmac.compare_digest(given, stored):
                found = Principal(name=name, scope=scope)
        return found

    def add(self, name: str, scope: Scope) -> str:
        """Create a token and return its value, which cannot be read again. Conflict if the name is in use,
        UsageError if it holds a secret: it would be stored redacted, and two such names would be one."""
        refuse_secret(check_name(name, "token name"), "the name of a token", redactor)
        if scope not in SCOPES:
            raise UsageError(f"unknown scope: {scope!r}", hints=["scopes are: read, operate, admin"])
        value = _PREFIX + secrets.token_urlsafe(_BYTES)
        with self.state.transaction():
            if name == OWN or self.state.rows("SELECT 1 FROM tokens WHERE name = ? AND revoked_us IS NULL", (name,)):
                raise Conflict(f"a token named {name} exists already", hints=[f"relight token revoke {name}"])
            self.state.rows(
                "INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, NULL)",
                (name, scope, _hashed(value), self._clock.now_us()),
            )
        return value

    def listed(self) -> list[Token]:
        """All API tokens, including revoked ones, oldest first."""
        rows = self.state.rows("SELECT name, scope, created_us, revoked_us FROM tokens ORDER BY created_us, name")
        return [
            Token(name=name, scope=scope, created_at=at(made), revoked_at=at(gone) if gone is not None else None)
            for name, scope, made, gone in rows
        ]

    def revoke(self, name: str) -> None:
        """Revoke a token, effective at once. NotFound."""
        now = self._clock.now_us()
        if not self.state.run("UPDATE tokens SET revoked_us = ? WHERE name = ? AND revoked_us IS NULL", (now, name)):
            raise NotFound(name, what="token", hints=["relight token list"])

    # -- browser --------------------------------------------------------------------------------------------------

    def new_code(self, seconds: float) -> str:
        """Create a one-time code for a launch link; it expires after `seconds`."""
        code, now = secrets.token_urlsafe(_BYTES), self._clock.now_us()
        self.state.rows("DELETE FROM codes WHERE expires_us < ?", (now,))
        self.state.rows("INSERT INTO codes VALUES (?, ?)", (_hashed(code), now + round(seconds * 1e6)))
        return code

    def has_code(self, code: str) -> bool:
        """Whether a code is valid now, without redeeming it."""
        asked = (_hashed(code), self._clock.now_us())
        return bool(self.state.rows("SELECT 1 FROM codes WHERE hash = ? AND expires_us >= ?", asked))

    def redeem_code(self, code: str, days: float) -> str | None:
        """Exchange a code for a login, once; None if it was redeemed, has expired or never existed."""
        now = self._clock.now_us()
        # The DELETE is the redemption: of two browsers with the same link only one deletes the row.
        if not self.state.run("DELETE FROM codes WHERE hash = ? AND expires_us >= ?", (_hashed(code), now)):
            return None
        login = secrets.token_urlsafe(_BYTES)
        self.state.rows("DELETE FROM logins WHERE expires_us < ?", (now,))
        expires = now + round(days * 86_400e6)
        self.state.rows("INSERT INTO logins VALUES (?, ?, ?)", (_hashed(login), now, expires))
        return login

    def cookie(self, login: str) -> Principal | None:
        """The principal of a login cookie, which is the owner; None if it is unknown or expired."""
        given, now = _hashed(login), self._clock.now_us()
        known = self.state.rows("SELECT hash FROM logins WHERE hash = ? AND expires_us >= ?", (given, now))
        if known and hmac.compare_digest(given, known[0][0]):
            return Principal(name=OWN, scope="admin", by_cookie=True)
        return None

    def forget(self, login: str) -> None:
        """Delete a login (log out)."""
        self.state.rows("DELETE FROM logins WHERE hash = ?", (_hashed(login),))


def _hashed(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _own_token(file: Path, environment: Mapping[str, str]) -> str:
    """RELIGHT_TOKEN, or the content of the token file, which is created at the first start."""
    given = environment.get("RELIGHT_TOKEN")
    if given:
        if len(given) < 16:
            raise UsageError("RELIGHT_TOKEN has fewer than 16 characters", hints=["use 32 random characters"])
        return given
    return read_or_create(file, _PREFIX + secrets.token_urlsafe(_BYTES))


def read_or_create(file: Path, content: str) -> str:
    """The content of a private file; a missing one is created with `content`. Of two processes one creates it."""
    if not file.exists():
        whole = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as made:
            made.write(content + "\n")
            made.flush()
            sync_file(made.fileno())
        # link(), unlike rename(), does not replace a file that another process created meanwhile.
        try:
            os.link(whole, file)
        except FileExistsError:
            pass  # the other process won; its content is read below
        finally:
            whole.unlink()
    return file.read_text(encoding="ascii").strip()
