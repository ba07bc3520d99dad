"""A tool, and a model's reply that asks for one, as Chat Completions has it."""

from __future__ import annotations

from typing import Any

import relight


def call(call_id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


@relight.tool
def send_mail(to: str) -> str:
    return f"sent to {to}"
