"""Gemini `generateContent`: `contents` with `parts`; calls are `functionCall` parts of the role `model`, results are
`functionResponse` parts of ONE user content directly after it, in call order.

Most calls have no id. They are answered by name and position, so the id used here is made of both, and results are
written without one. Names of fields are read as the REST API writes them and in the SDK's other spelling
(`function_call`). The top-level `systemInstruction` is not a content.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Final

from relight.journal.formats.content import arguments_of, blocks_of, json_text, result_block, text_of
from relight.journal.formats.format import CallSite, OneMessage, ProviderDict, ToolResult
from relight.values.view import Block, Image, Placeholder, Reason, Role, Text

_CALL: Final = ("functionCall", "function_call")
_RESPONSE: Final = ("functionResponse", "function_response")
_BY_POSITION: Final = "by_position"
"""kind of a call without an id"""


class Gemini(OneMessage):
    """The format of `client.models.generate_content(contents=...)`."""

    name = "gemini"
    content = "parts"
    roles: ClassVar[dict[str, Role]] = {"user": "user", "model": "assistant", "function": "tool", "tool": "tool"}

    def recognises(self, message: ProviderDict) -> bool:
        return isinstance(message.get("parts"), list) and "content" not in message

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("role") == "model"

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        if message.get("role") != "model":
            return ()
        return tuple([_site(call, found) for found, call in _numbered(_inner(message, _CALL))])

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        if message.get("role") == "model":
            return ()
        return tuple([found for found, _ in _numbered(_inner(message, _RESPONSE))])

    def fragment(self, result: ToolResult) -> ProviderDict:
        response = {"output": result.content} if result.status == "ok" else {"error": json_text(result.content)}
        inner: dict[str, Any] = {"name": result.name, "response": response}
        return {"functionResponse": inner if result.kind == _BY_POSITION else {"id": result.call_id, **inner}}

    def user(self, text: str) -> ProviderDict:
        return {"role": "user", "parts": [{"text": text}]}

    def assistant(self, text: str) -> ProviderDict:
        return {"role": "model", "parts": [{"text": text}]}

    def is_result(self, block: Any) -> bool:
        return _in(block, _RESPONSE) is not None

    def read_result(self, call: str, block: ProviderDict) -> tuple[Block, ...]:
        return (_read_response(call, _in(block, _RESPONSE) or {}),)

    def read_rest(self, message: ProviderDict) -> tuple[Block, ...]:
        sites = iter(self.calls(message))
        content = message.get("parts", message.get("content"))
        return blocks_of(content, lambda part: _read_part(part, next(sites, None) if _is_call(part) else None))


GEMINI: Final = Gemini()


def _in(part: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """The object under one of these keys."""
    if not isinstance(part, dict):
        return None
    return next((one for key in keys if isinstance(one := part.get(key), dict)), None)


def _is_call(part: dict[str, Any]) -> bool:
    return _in(part, _CALL) is not None


def _inner(message: ProviderDict, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    parts = message.get("parts")
    return [one for part in (parts if isinstance(parts, list) else ()) if (one := _in(part, keys)) is not None]


def _numbered(found: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """With an id each: the provider's, or the name and how many of this name came before."""
    seen: Counter[str] = Counter()
    numbered = []
    for one in found:
        name = text_of(one.get("name"))
        numbered.append((text_of(one.get("id")) or f"{name}#{seen[name]}", one))
        seen[name] += not one.get("id")
    return numbered


def _site(call: dict[str, Any], found: str) -> CallSite:
    kind = "" if text_of(call.get("id")) else _BY_POSITION
    arguments = call.get("args")
    return CallSite(
        id=found,
        name=text_of(call.get("name")),
        arguments=arguments_of({} if arguments is None else arguments),
        kind=kind,
    )


def _read_response(call: str, inner: dict[str, Any]) -> Block:
    response = inner.get("response")
    if isinstance(response, dict) and len(response) == 1 and ("error" in response or "output" in response):
        key = next(iter(response))
        return result_block(call=call, text=json_text(response[key]), failed=key == "error")
    return result_block(call=call, text=json_text(response), failed=False)


def _read_part(part: dict[str, Any], site: CallSite | None) -> Block:
    if site is not None:
        return site.view()
    signature = text_of(part.get("thoughtSignature")) or text_of(part.get("thought_signature"))
    if part.get("thought") is True:
        return Reason(text=text_of(part.get("text")), opaque=signature)
    if isinstance(part.get("text"), str):
        return Text(text=part["text"])
    if (data := _in(part, ("inlineData", "inline_data"))) is not None:
        return Image(media=text_of(data.get("mimeType") or data.get("mime_type")), data=text_of(data.get("data")))
    if (file := _in(part, ("fileData", "file_data"))) is not None:
        return Image(url=text_of(file.get("fileUri") or file.get("file_uri")))
    return Placeholder(text=f"[{next(iter(part), 'unknown')}]")
