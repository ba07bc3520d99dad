"""Helpers shared by several formats: arguments, texts, images, marks of failure.

Some providers have no field for a failed result. There the text begins with `[error]`, so that reading it back does not
turn an error into a success. Nothing here knows a provider's message shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from relight.values.call import NOT_RUN, NOT_RUN_HERE, OUTCOME_UNKNOWN
from relight.values.view import Block, Image, Placeholder, Result, ResultStatus, Text

ERROR_MARK: Final = "[error]"
_UNKNOWN_HEADS: Final = (OUTCOME_UNKNOWN.partition(":")[0] + ":", NOT_RUN_HERE)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def parse_arguments(arguments: dict[str, Any] | str) -> dict[str, Any] | str:
    """The object that the JSON text contains, or the text itself if it contains none. Some models and servers write no
    text at all for a call without arguments."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}
    try:
        parsed = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def arguments_of(value: Any) -> dict[str, Any] | str:
    """Arguments as given: an object or a text; anything else as JSON text."""
    if value is None:
        return ""
    return value if isinstance(value, (dict, str)) else json_text(value)


def text_of(value: Any) -> str:
    """The value if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def json_text(value: Any) -> str:
    """Text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[nested too deeply]"
    except ValueError:  # Python refuses to convert integers of more than 4,300 digits
        return "[holds a number too long to spell out]"


def are_blocks(content: Any, kinds: frozenset[str]) -> bool:
    """Whether it is a list of content blocks of these kinds (and not a list that a tool returned)."""
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(block, dict) and is_kind(block.get("type"), kinds) for block in content)


def is_kind(value: Any, kinds: frozenset[str]) -> bool:
    """Whether the value is one of these words. Total: a list or dict is not."""
    return isinstance(value, str) and value in kinds


def marked(text: str, status: ResultStatus) -> str:
    """The text of a result for a provider without a field for failure."""
    return f"{ERROR_MARK} {text}" if status == "error" and not text.startswith(ERROR_MARK) else text


def result_block(*, call: str, text: str, failed: bool | None) -> Result:
    """The neutral result. `failed` is None if the provider has no field for it and the text is marked."""
    if text.startswith(_UNKNOWN_HEADS):
        return Result(call=call, status="unknown", text=text, synthetic=True)
    if failed is None and text.startswith(ERROR_MARK):
        text, failed = text[len(ERROR_MARK) + 1 :], True
    synthetic = text == NOT_RUN
    return Result(call=call, status="error" if failed or synthetic else "ok", text=text, synthetic=synthetic)


def image_at(url: Any) -> Image:
    """An image by its URL, which may be a data URL."""
    address = text_of(url)
    head, comma, data = address.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Image(media=head[len("data:") : -len(";base64")].partition(";")[0], data=data)
    return Image(url=address)


def blocks_of(content: Any, read_block: Callable[[dict[str, Any]], Block | None]) -> tuple[Block, ...]:
    """Content that is text, or a list of texts and provider blocks, as neutral blocks."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    if not isinstance(content, list):
        return () if content is None else (Text(text=json_text(content)),)
    found = (read_block(part) if isinstance(part, dict) else Text(text=json_text(part)) for part in content)
    return tuple(block for block in found if block is not None)


def placeholder(block: dict[str, Any]) -> Placeholder:
    """A block that the neutral view has no type for."""
    return Placeholder(text=f"[{text_of(block.get('type')) or 'unknown'}]")


def result_blocks(*, call: str, content: Iterable[Block], failed: bool | None = None) -> tuple[Block, ...]:
    """A result and the images that came with it."""
    blocks = tuple(content)
    text = "\n".join(block.text for block in blocks if isinstance(block, Text))
    images = (block for block in blocks if isinstance(block, Image))
    return (result_block(call=call, text=text, failed=failed), *images)
