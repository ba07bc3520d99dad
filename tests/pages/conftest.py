"""A server over sessions of every kind, shared by who only looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.pages.scenes import Scenes
from tests.server.desk import Desk


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    base = tmp_path_factory.mktemp("pages")
    scenes = Scenes(base / "p.db", base / "src")
    scenes.fill()
    scenes.close()
    desk = Desk(base / "p.db")
    yield desk
    desk.close()


@pytest.fixture(scope="session")
def look(scene: Desk) -> Iterator[TestClient]:
    """A browser's requests, without a browser."""
    with scene.client("read") as client:
        client.headers["accept"] = "text/html"
        yield client


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """An empty one, for who changes something."""
    made = Desk(tmp_path / "p.db")
    yield made
    made.close()
