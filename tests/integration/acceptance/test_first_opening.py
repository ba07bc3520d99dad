"""A new name that several open at the same moment is one session, and with `wait` each gets its turn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import relight
from tests.integration.acceptance.conftest import Addresses

WRITERS = 6


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres", "redis"])
def test_a_new_name_opened_by_many_at_once_is_one_session(kind: str, address_of: Addresses, tmp_path: Path) -> None:
    together = Barrier(WRITERS)
    with relight.open(address_of(kind, tmp_path)) as rl:

        def write(number: int) -> str:
            together.wait(30)
            with rl.session("ada", wait=60) as s:
                s.append({"role": "user", "content": str(number)})
                return s.id

        with ThreadPoolExecutor(WRITERS) as pool:
            ids = set(pool.map(write, range(WRITERS)))
        assert len(ids) == 1
        assert sorted(message["content"] for message in rl.history.load("ada").messages) == list(
            map(str, range(WRITERS))
        )
