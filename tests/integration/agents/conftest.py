"""What a run of real agents costs, written down where `make test-agents` shows it; what there was to see when one
failed."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.conftest import ROOT
from tests.support.agent_harness import SEEN

_FAILED = pytest.StashKey[bool]()


@pytest.fixture
def cost() -> Callable[[str], None]:
    """`cost("claude: a hook takes 40 ms")`: no guarantee, so no figure of one."""

    def tell(text: str) -> None:
        path = ROOT / "build" / "agent-costs.txt"
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    return tell


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure that came once has to be understood from its report. A harness may be closed by the test itself or by a
    fixture, so that what it saw is shown after the last phase too."""
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    if item.stash[_FAILED]:
        report.sections += [(f"the agent's harness as it was closed ({report.when})", one) for one in SEEN]
    if report.when != "setup":
        SEEN.clear()
    return report
