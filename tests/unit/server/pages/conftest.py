"""A server over sessions of every kind, shared by who only looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.support.sample_sessions import Scenes
from tests.support.server_harness import ServerHarness


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHarness]:
    base = tmp_path_factory.mktemp("pages")
    scenes = Scenes(base / "p.db", base / "src")
    scenes.fill()
    scenes.close()
    harness = ServerHarness(base / "p.db")
    yield harness
    harness.close()


@pytest.fixture(scope="session")
def look(scene: ServerHarness) -> Iterator[TestClient]:
    """A browser's requests, without a browser."""
    with scene.client("read") as client:
        client.headers["accept"] = "text/html"
        yield client


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ServerHarness]:
    """An empty one, for who changes something."""
    made = ServerHarness(tmp_path / "p.db")
    yield made
    made.close()
