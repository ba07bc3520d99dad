"""HTTP POST to a checked address (SSRF guard): the name is resolved once, and that address is connected to.

Addresses that are not public are refused unless a setting allows them; redirects are not followed; time and size of
the response are bounded. So a callback cannot be used to reach what only this machine can reach.
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
_MAX_LENGTH: Final = 2000

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
    """The request was not delivered; the message says why."""


def checked(url: str, allow: Sequence[str]) -> SplitResult:
    """The parsed address; UsageError if it is malformed or not allowed. Names are resolved later, by `post`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError(f"not a URL: {url[:100]!r}") from None
    if len(url) > _MAX_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"a callback address is printable ASCII of at most {_MAX_LENGTH} characters, without spaces")
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise UsageError("a callback address is an http or https URL", hints=["https://example.com/hook"])
    if parts.username is not None or parts.password is not None:
        raise UsageError("a callback address must not contain a user or password")
    literal = _literal(parts.hostname)
    if literal is not None and not may_reach(parts.hostname, literal, allow):
        raise UsageError(f"{literal} is not a public address", hints=["allow it in RELIGHT_CALLBACK_ALLOW"])
    return parts


def _literal(name: str) -> Address | None:
    """The IP address that a host name spells without DNS, in any spelling that resolvers accept: 0x7f.1, 2130706433."""
    if name.rstrip(".") == "localhost" or name.rstrip(".").endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        pass  # not in the usual notation
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name.rstrip(".")))
    except OSError:
        return None


def may_reach(name: str, address: Address, allow: Sequence[str]) -> bool:
    """Whether an address is public, or allowed by a setting as host name, address or network."""
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
    """Whether an address is globally reachable."""
    # Not `address.is_global`: its answer differs between versions of Python.
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


def _inner(address: Address) -> Address | None:
    """The IPv4 address that an IPv6 address embeds (NAT64, mapped, 6to4, Teredo); None if it is a real one."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def post(url: str, body: bytes, headers: Mapping[str, str], *, allow: Sequence[str], seconds: float) -> int:
    """POST the body; the response's status. Unreachable if there was no response or the address is not allowed."""
    try:
        parts = checked(url, allow)
    except UsageError as error:
        raise Unreachable(str(error)) from None
    name, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    address = _resolved(name, port, allow)
    connection = _connection(parts.scheme, name, port, address, seconds)
    # The socket's timeout bounds one read only: a receiver that sends a byte now and then would hold this thread.
    late = threading.Event()
    watchdog = threading.Timer(seconds, _cut, [connection, late])
    watchdog.daemon = True
    watchdog.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=dict(headers))
        answered = connection.getresponse()
        answered.read(_READ_BYTES)
        if late.is_set():  # the shut-down socket reads as the end of a complete response
            raise Unreachable("timed out before the response was complete")
        return answered.status
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}"[:300]) from None
    finally:
        watchdog.cancel()
        connection.close()


def _resolved(name: str, port: int, allow: Sequence[str]) -> str:
    """Resolve once; every address of the name has to be allowed, and the first is used."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{name}: cannot be resolved ({error})") from None
    addresses = [str(one[4][0]) for one in found]
    for address in addresses:
        if not may_reach(name, ipaddress.ip_address(address.partition("%")[0]), allow):
            raise Unreachable(f"{name} resolves to {address}, which is not public")
    if not addresses:
        raise Unreachable(f"{name} has no address")
    return addresses[0]


class _Plain(http.client.HTTPConnection):
    """Connects to the checked address; the name is used for the Host header only."""

    address = ""

    def connect(self) -> None:
        self.sock = socket.create_connection((self.address, self.port), self.timeout)


class _Secure(http.client.HTTPSConnection):
    """The same over TLS; the certificate is checked against the name."""

    address = ""

    def connect(self) -> None:
        raw = socket.create_connection((self.address, self.port), self.timeout)
        self.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=self.host)


def _connection(scheme: str, name: str, port: int, address: str, seconds: float) -> http.client.HTTPConnection:
    kind = _Secure if scheme == "https" else _Plain
    connection = kind(name, port, timeout=seconds)
    connection.address = address
    return connection


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """Watchdog: end a request that takes longer than its whole time."""
    late.set()
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already
