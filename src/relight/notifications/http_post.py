"""One HTTP POST to an address that the user chose. No redirect is followed: it would go where the user did not say."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any, Final

_SECONDS: Final = 10.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Refuse: urllib raises HTTPError then."""


_opener = urllib.request.build_opener(_NoRedirects)


class NotTaken(OSError):
    """The address answered with another status than success."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


def post(url: str, headers: dict[str, str], body: bytes) -> None:
    """Send it and read the reply's status. OSError unless it is a success."""
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with _opener.open(request, timeout=_SECONDS) as reply:
            reply.read(1)
    except urllib.error.HTTPError as error:  # a status of 300 and above
        raise NotTaken(error.code) from None
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from None
