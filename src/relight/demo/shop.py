"""The task, and the script of the model that solves it: a shop with a bug in cart.py and the tests that show it.

The fix is an ordinary search-and-replace edit that also applies a second time, so a loop that starts over leaves a
second copy, which can be counted. The model's next reply depends only on the last tool call and its result: after a
mail whose outcome is unknown it checks the outbox before it sends again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

PROMPT: Final = "The cart's tests fail. Fix it, then tell the team."
CART: Final = '''"""The cart. Prices are in cents, a discount is in per cent."""


def total(items: list[tuple[int, int]], discount: int = 0) -> int:
    """What (price, count) pairs cost together."""
    subtotal = sum(price * count for price, count in items)
    result = subtotal
    return result
'''
TESTS: Final = '''"""What the cart should do."""

import unittest

from cart import total


class Cart(unittest.TestCase):
    def test_nothing_costs_nothing(self):
        self.assertEqual(total([]), 0)

    def test_prices_add_up(self):
        self.assertEqual(total([(250, 2), (99, 1)]), 599)

    def test_no_discount(self):
        self.assertEqual(total([(1000, 1)], discount=0), 1000)

    def test_ten_per_cent(self):
        self.assertEqual(total([(1000, 1)], discount=10), 900)

    def test_free(self):
        self.assertEqual(total([(1000, 3)], discount=100), 0)

    def test_impossible_discount(self):
        with self.assertRaises(ValueError):
            total([(1000, 1)], discount=101)
'''
PLACE: Final = "    return result\n"
FIX: Final = """    if not 0 <= discount <= 100:
        raise ValueError(f"a discount is 0 to 100 per cent, not {discount}")
    result = subtotal * (100 - discount) // 100
"""
NO_MAIL: Final = "no mail found"
TEST_SECONDS: Final = 60

Call = tuple[str, dict[str, Any]]
_MAIL: Final[Call] = ("send_mail", {"subject": "fixed", "to": "team"})


def lay_out(directory: Path) -> None:
    """Write the shop as it was found: with the bug."""
    directory.mkdir()
    (directory / "cart.py").write_text(CART, encoding="utf-8")
    (directory / "test_cart.py").write_text(TESTS, encoding="utf-8")


def files(directory: Path) -> dict[str, bytes]:
    """Every file of the shop with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}


def run_tests(directory: Path) -> tuple[int, int]:
    """(passed, all) of the shop's tests, run in a child process. -B: no bytecode files in the workspace."""
    command = [sys.executable, "-B", "-m", "unittest", "test_cart"]
    done = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=TEST_SECONDS, check=False
    )
    told = done.stderr.decode(errors="replace")
    ran = sum(map(int, re.findall(r"^Ran (\d+) tests? in", told, re.MULTILINE)))
    return ran - sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", told))), ran


def turns(messages: Sequence[dict[str, Any]]) -> int:
    """Number of replies of the model so far."""
    return sum(message["role"] == "assistant" for message in messages)


def reply(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The next message of the scripted model."""
    text, calls = _next(messages)
    turn = turns(messages) + 1
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for number, (name, arguments) in enumerate(calls, 1):
        content.append({"type": "tool_use", "id": f"call_{turn}_{number}", "name": name, "input": arguments})
    return {"role": "assistant", "content": content}


def _next(messages: Sequence[dict[str, Any]]) -> tuple[str, list[Call]]:
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    names = [block["name"] for block in blocks if block["type"] == "tool_use"]
    result = str(blocks[-1].get("content", "")) if blocks else ""
    match names[-1] if names else None:
        case None:
            look: list[Call] = [("read_file", {"path": "test_cart.py"}), ("read_file", {"path": "cart.py"})]
            return "I will look at the failing test.", look
        case "read_file":
            edit = {"path": "cart.py", "old": PLACE, "new": FIX + PLACE}
            return "The total ignores the discount.", [("edit_file", edit)]
        case "edit_file":
            return "Now the tests.", [("run_tests", {})]
        case "run_tests" if "failed" in result:
            return "The tests still fail. I stop here.", []
        case "run_tests":
            return "All green. I will tell the team.", [_MAIL]
        case "send_mail":
            return "I will see whether it went out.", [("check_outbox", {})]
        case _ if result == NO_MAIL:
            return "It did not go out. I will send it now.", [_MAIL]
    return "It went out. Done.", []
