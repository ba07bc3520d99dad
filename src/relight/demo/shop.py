"""The task: a shop with a real bug in cart.py, the tests that show it, and how often it was fixed.

The fix is an ordinary search-and-replace edit that also applies a second time. So a loop that starts over leaves a
second copy in the file, which can be counted.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

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


if __name__ == "__main__":
    unittest.main()
'''

PLACE: Final = "    return result\n"
FIX: Final = """    if not 0 <= discount <= 100:
        raise ValueError(f"a discount is 0 to 100 per cent, not {discount}")
    result = subtotal * (100 - discount) // 100
"""

TEST_SECONDS: Final = 60
_RAN: Final = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_BAD: Final = re.compile(r"(?:failures|errors)=(\d+)")


def lay_out(directory: Path) -> None:
    """Write the shop as it was found: with the bug."""
    directory.mkdir()
    (directory / "cart.py").write_text(CART, encoding="utf-8")
    (directory / "test_cart.py").write_text(TESTS, encoding="utf-8")


def times_fixed(directory: Path) -> int:
    """How often cart.py contains the fix."""
    return (directory / "cart.py").read_text(encoding="utf-8").count(FIX)


def run_tests(directory: Path) -> tuple[int, int]:
    """(passed, all) of the shop's tests, run in a child process. -B: no bytecode files in the workspace."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "test_cart"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=TEST_SECONDS,
        check=False,
    )
    ran = _RAN.search(done.stderr)
    if ran is None:
        return 0, 0
    bad = sum(int(number) for number in _BAD.findall(done.stderr))
    return int(ran[1]) - bad, int(ran[1])


def files(directory: Path) -> dict[str, bytes]:
    """Every file of the shop with its bytes."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
