"""The site of the documentation has every page, with links that lead somewhere (`make docs` builds it)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import site


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "site-source"
    site.build(target)
    return target


def test_every_page_of_the_repository_is_in_the_contents_and_in_llms_txt(source: Path) -> None:
    configuration, listed = source.with_name("site.yml").read_text(), (source / "llms.txt").read_text()
    for page in source.rglob("*.md"):
        path = page.relative_to(source).as_posix()
        assert f'"{path}"' in configuration, path
    for _, path, said in site.contents():
        assert (source / path).exists() and f"({path}): {said}" in listed


def test_every_link_between_pages_leads_to_a_page(source: Path) -> None:
    for page in source.rglob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = link.partition("#")[0]
            if path and "://" not in link:
                assert (page.parent / path).exists(), f"{page.relative_to(source)}: {link}"


def test_a_page_that_the_reading_order_does_not_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_pages", lambda: ["guide.md", "forgotten.md"])
    with pytest.raises(site.Unlisted, match=r"forgotten\.md"):
        site.contents()
