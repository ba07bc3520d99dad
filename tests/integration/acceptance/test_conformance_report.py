"""One report for all four stores: every promise kept by each, and nothing asked of a store that it does not declare."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import relight
from relight.stores.memory import MemoryStore
from relight.testing.report import TOLD, compare, main
from relight.testing.store_kit import CHECKS
from tests.integration.acceptance.conftest import Servers

SOURCE = Path(relight.__file__).resolve().parent
ASKED = re.compile(r"""\b(?:getattr|hasattr)\([\w.]*\bstore, ["'](\w+)["']""")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_all_four_stores_keep_every_promise(servers: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    postgres, redis = servers.postgres, servers.redis
    code = main([postgres.url(), redis.url])
    said = capsys.readouterr().out
    assert code == 0, said
    head, *rows = said.splitlines()
    assert head.split() == ["memory", "sqlite", "postgres", "redis"]
    counted = [re.findall(r"(\d+) of (\d+) (.)", row) for row in rows[: -len(TOLD)]]
    assert all(len(row) == 4 and len(set(row)) == 1 for row in counted), said
    assert sum(int(row[0][1]) for row in counted) == len(CHECKS)
    assert {row.split()[0] for row in rows[-len(TOLD) :]} == set(TOLD)
    assert postgres.execute("SELECT 1 FROM pg_database WHERE datname LIKE 'relight_conformance%'") == []
    with redis.client() as client:
        assert [key for key in client.scan_iter() if b"conformance" in key] == []


class Forgetful(MemoryStore):
    """A store with a planted bug: a label once given stays."""

    def unlabel(self, session: str, seq: int) -> int:
        return 0


def test_a_store_that_differs_is_named() -> None:
    report = compare({"memory": MemoryStore, "forgetful": Forgetful})
    assert not report.is_same
    assert ("forgetful", "a_label_can_be_removed") in {(store, one.check) for store, one in report.broken}
    assert {store for store, _ in report.broken} == {"forgetful"}
    assert "✗" in str(report)
    assert "forgetful: a_label_can_be_removed" in str(report)


def test_nobody_asks_a_store_for_what_is_not_declared() -> None:
    """What mypy cannot see: names asked for at run time, past the port and what the store says about itself."""
    asked = {
        (str(path.relative_to(SOURCE)), attribute)
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in ("stores", "testing")
        for attribute in ASKED.findall(path.read_text(encoding="utf-8"))
    }
    assert asked == set()
