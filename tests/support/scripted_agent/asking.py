"""Asking the model: one streamed request of the Messages API, repeated where a pause can cure what went wrong."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tests.support.scripted_agent.failing import ApiError, failure, lost

_SECONDS: Final = 600.0
_LONGEST_WAIT: Final = 60.0
_NO_PAUSE_CURES: Final = frozenset({400, 403, 404, 413})


class Model:
    """A model behind a base URL."""

    def __init__(self, variables: Mapping[str, str], stopped: threading.Event) -> None:
        self._url = urlsplit(variables.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com")
        self._token = variables.get("CLAUDE_CODE_OAUTH_TOKEN")
        self._key = variables.get("ANTHROPIC_API_KEY")
        self._retries = int(variables.get("CLAUDE_CODE_MAX_RETRIES") or 10)
        self._pause = float(variables.get("SCRIPTED_AGENT_RETRY_MS") or 500) / 1000
        self._stopped = stopped
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, body: Mapping[str, Any], *, again: Callable[[ApiError, int, int, float], None]) -> dict[str, Any]:
        """The whole message. ApiError where it does not come; `again` hears of every repetition."""
        if not self._key and not self._token:
            raise ApiError(text="Not logged in · Please run /login", error="authentication_failed", cures=False)
        attempt = 0
        while True:
            try:
                return self._once(body)
            except ApiError as error:
                attempt += 1
                if not error.cures or attempt > self._retries or self._stopped.is_set():
                    raise
                pause = self._pause * 2 ** (attempt - 1) if error.after is None else error.after
                again(error, attempt, self._retries, pause)
                if self._stopped.wait(pause):
                    raise

    def _once(self, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        headers |= {"authorization": f"Bearer {self._token}"} if self._token else {"x-api-key": str(self._key)}
        secure = self._url.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=_SECONDS)
        try:
            connection.request("POST", f"{self._url.path}/v1/messages?beta=true", json.dumps(body).encode(), headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise self._refused(response)
            return assemble(_events(response))
        except (OSError, http.client.HTTPException) as error:
            raise lost(error) from None
        finally:
            connection.close()

    def _refused(self, response: http.client.HTTPResponse) -> ApiError:
        error = failure(
            response.status, dict(response.getheaders()), response.read(), subscription=self._token is not None
        )
        after = float(response.headers.get("retry-after") or 0)
        error.after = after or None
        if after > _LONGEST_WAIT or response.status in _NO_PAUSE_CURES:
            error.cures = False
        return error


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for raw in response:
        if raw.startswith(b"data:"):
            yield json.loads(raw[5:])


def assemble(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """One message from its pieces. ApiError where they end too early."""
    message: dict[str, Any] = {}
    pieces: dict[int, str] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                message = {**event["message"], "content": []}
            case "content_block_start":
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                _grow(message["content"][event["index"]], event["delta"], pieces, event["index"])
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event.get("usage", {})
            case "error":
                raise ApiError(text=f"API Error: {event['error'].get('message')}", error="server_error", status=529)
            case "message_stop":
                for index, text in pieces.items():
                    message["content"][index]["input"] = json.loads(text or "{}")
                return message
    raise ApiError(text="API Error: the stream ended early", error="server_error", api_error="connection_failed")


def _grow(block: dict[str, Any], delta: Mapping[str, Any], pieces: dict[int, str], index: int) -> None:
    if delta["type"] == "input_json_delta":
        pieces[index] = pieces.get(index, "") + delta["partial_json"]
        return
    name = delta["type"].removesuffix("_delta")
    block[name] = block.get(name, "") + delta[name]
