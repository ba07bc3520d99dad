"""What a run of real agents costs, written down where `make test-agents` shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import ROOT


@pytest.fixture
def cost() -> Callable[[str], None]:
    """`cost("claude: a hook takes 40 ms")`: no guarantee, so no figure of one."""

    def tell(text: str) -> None:
        path = ROOT / "build" / "agent-costs.txt"
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    return tell
