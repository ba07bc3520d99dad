"""Tests of pages wait for what has to come: one that looks at a moment passes here and fails on a busy machine."""

from __future__ import annotations

import re

import pytest

from tests.house.files import ROOT

pytestmark = pytest.mark.house

BROWSER = ROOT / "tests" / "integration" / "browser"
_MOMENTS = {
    r"assert .*\)\.(count|inner_text|text_content|get_attribute|input_value|title)\(": "expect(...) waits for it",
    r"\.is_(visible|hidden|checked|enabled|disabled)\(": "expect(...) waits for it",
    r"\.(element_handles?|query_selector|query_selector_all|bounding_box)\(": "a paint replaces it: use a locator",
    r"wait_for_timeout\(": "wait for what should have happened by then",
    r"getloadavg|perf_counter": "compare two times that were measured in turns",
    r"\.new_context\(": "stranger(browser) keeps what a failure has to tell",
}
_REASON = re.compile(r"  # \S")
"""a line may say why it looks at a moment"""


def test_no_test_of_a_page_looks_at_a_moment_without_saying_why() -> None:
    found = [
        f"{path.name}:{number} {line.strip()}: {instead}"
        for path in sorted(BROWSER.glob("test_*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for moment, instead in _MOMENTS.items()
        if re.search(moment, line) and not _REASON.search(line)
    ]
    assert found == []
