"""The pictures of the documentation, made from the same scenes as the tests; `make docs` takes them over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.integration.browser.conftest import SCREENSHOTS, Site
from tests.support.sample_sessions import Scenes

MAX_BYTES = 150_000
SIZE, PHONE = {"width": 1120, "height": 700}, {"width": 390, "height": 844}
STILL = """async () => {
    for (let still = 0, at = scrollY; still < 20; still = at === scrollY ? still + 1 : 0, at = scrollY)
        await new Promise((go) => requestAnimationFrame(go));
}"""
"""a page goes to its chosen step while the rows before it get their height"""


def test_the_pictures_of_the_documentation_are_small_and_show_no_place_of_this_machine(
    tmp_path: Path, over: Callable[[Path], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    scenes = Scenes(tmp_path / "p.db", tmp_path / "src")
    scenes.fill()
    scenes.close()
    site = over(tmp_path / "p.db")
    session = site.rl.sessions.get("fix-login").id
    locations: list[tuple[str, str, Any]] = [
        ("sessions", "/", "light"),
        ("session", f"/sessions/{session}", "dark"),
        ("checkpoint", f"/checkpoints/{session}@tests-green", "light"),
        ("operations", "/operations", "dark"),
        ("step", f"/sessions/{session}?at=@7", "light"),
        ("conversation", f"/sessions/{session}?tab=conversation", "light"),
        ("compare", f"/compare?a={session}&b={site.rl.sessions.get('fix-login-argon2').id}", "dark"),
        ("costs", "/costs", "light"),
        ("search", "/search?q=token", "dark"),
        ("sessions-phone", "/", "light"),
        ("session-phone", f"/sessions/{session}", "dark"),
    ]
    kept = SCREENSHOTS / "docs"
    kept.mkdir(parents=True, exist_ok=True)
    for name, path, scheme in locations:
        page = site.page(path, viewport=PHONE if name.endswith("-phone") else SIZE, color_scheme=scheme)
        expect(page.locator("main")).to_be_visible()
        page.evaluate(STILL)
        if name != "step":
            page.evaluate("scrollTo(0, 0)")
        if name == "session":
            page.locator(".u-over").wait_for()
        if name == "operations":
            page.locator("#resumes figure").wait_for()
        if name == "checkpoint":
            page.locator("[data-verb=rewind]").click()
            page.locator("#dialog h2").wait_for()
        expect(page.locator("body"), name).not_to_contain_text(str(tmp_path), use_inner_text=True)
        page.screenshot(path=kept / f"{name}.png")
        assert (kept / f"{name}.png").stat().st_size < MAX_BYTES, name
