"""One POST to an address that was looked at first: resolved once, checked, and connected to as checked.

Not global addresses are refused unless a setting names them; no redirect is followed; time and answer are bounded.
So a callback cannot be used to reach what only this machine can reach.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from relight.errors import UsageError

_READ_BYTES: Final = 4096
_PORTS: Final = {"http": 80, "https": 443}
_LENGTH: Final = 2000

_SPECIAL_4: Final = tuple(
    ipaddress.IPv4Network(one)
    for one in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ]
)
"""this host, private, shared, loopback, link-local, protocol assignments (192.0.0.192 is a cloud's metadata), examples,
anycast services, the former 6to4 relay, benchmarks, multicast, reserved, broadcast: RFC 6890 and the IANA registry"""
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
"""all that is given out as global unicast; the rest (loopback, unique local, link-local, the former site-local,
multicast, discard, segment routing, translations) is not public by not being here"""
_SPECIAL_6: Final = tuple(
    ipaddress.IPv6Network(one) for one in ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]
)
"""protocol assignments with Teredo, ORCHID and benchmarks, examples, 6to4, an anycast service"""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Unreachable(Exception):
    """It was not delivered, and why."""


def checked(url: str, allow: Sequence[str]) -> SplitResult:
    """The parts of an address that may be called; UsageError with what is wrong. A name is resolved later."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError(f"not an address: {url[:100]!a}") from None
    if len(url) > _LENGTH or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError("a callback address is plain ASCII, and short")
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise UsageError("a callback is an http or https address", hints=["https://example.com/hook"])
    if parts.username is not None or parts.password is not None:
        raise UsageError("a callback address holds no user and no password")
    literal = _literal(parts.hostname)
    if literal is not None and not may_reach(parts.hostname, literal, allow):
        raise UsageError(f"{literal} is not a public address", hints=["name it in RELIGHT_CALLBACK_ALLOW"])
    return parts


def _literal(name: str) -> Address | None:
    """The address that a host stands for without anybody being asked, however it is spelt: 0x7f.1, 2130706433."""
    if name.rstrip(".") == "localhost" or name.rstrip(".").endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        pass  # not as it is usually written
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name.rstrip(".")))
    except OSError:
        return None


def may_reach(name: str, address: Address, allow: Sequence[str]) -> bool:
    """A public address, or one that a setting names: by host name, by address or by network."""
    for one in allow:
        if one == name.lower():
            return True
        try:
            if address in ipaddress.ip_network(one, strict=False):
                return True
        except ValueError:
            continue  # a host name
    inner = _inner(address)
    if inner is not None:
        return may_reach(name, inner, allow)
    return is_public(address)


def is_public(address: Address) -> bool:
    """By a table of our own: what Python calls global differs from version to version, and the registries grow."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


def _inner(address: Address) -> Address | None:
    """What an address of version 6 leads to, where it is only a way to write one of version 4."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def post(url: str, body: bytes, headers: Mapping[str, str], *, allow: Sequence[str], seconds: float) -> int:
    """The status that was answered. Unreachable where nothing was, or where the address is refused."""
    try:
        parts = checked(url, allow)
    except UsageError as error:
        raise Unreachable(str(error)) from None
    name, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    address = _resolved(name, port, allow)
    connection = _connection(parts.scheme, name, port, address, seconds)
    late = threading.Event()
    watchdog = threading.Timer(seconds, _cut, [connection, late])
    watchdog.daemon = True
    watchdog.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=dict(headers))
        answered = connection.getresponse()
        answered.read(_READ_BYTES)
        if late.is_set():  # what came before the cut reads like a whole answer
            raise Unreachable("no whole answer in time")
        return answered.status
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}"[:300]) from None
    finally:
        watchdog.cancel()
        connection.close()


def _resolved(name: str, port: int, allow: Sequence[str]) -> str:
    """One look; every address that comes back has to be allowed, and the first is used."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{name}: cannot be resolved ({error})") from None
    addresses = [str(one[4][0]) for one in found]
    for address in addresses:
        if not may_reach(name, ipaddress.ip_address(address.partition("%")[0]), allow):
            raise Unreachable(f"{name} leads to {address}, which is not public")
    if not addresses:
        raise Unreachable(f"{name}: has no address")
    return addresses[0]


class _Plain(http.client.HTTPConnection):
    """Speaks to the name, connects to the address."""

    address = ""

    def connect(self) -> None:
        """To the address that was checked; the name is only said."""
        self.sock = socket.create_connection((self.address, self.port), self.timeout)


class _Secure(http.client.HTTPSConnection):
    """The same over TLS; the certificate must be the name's."""

    address = ""

    def connect(self) -> None:
        """As above."""
        raw = socket.create_connection((self.address, self.port), self.timeout)
        self.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=self.host)


def _connection(scheme: str, name: str, port: int, address: str, seconds: float) -> http.client.HTTPConnection:
    kind = _Secure if scheme == "https" else _Plain
    connection = kind(name, port, timeout=seconds)
    connection.address = address
    return connection


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """An answer that drips is not waited for."""
    late.set()
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already
