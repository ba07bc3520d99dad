"""Makes the source of the documentation's site, and checks that every page is in its contents.

    tools/site.py SOURCE            write the source of the site
    tools/site.py SOURCE SITE       put the pages as text, and llms.txt, beside the built ones

The pages are those of docs/, unchanged but for links that leave it. The repository's own pages (architecture, changelog
and so on) become pages of the site. `llms.txt` lists every page with its one-line description, for programs that read.
The contents follow the table "Read on" of docs/README.md, so that a page is described in one place.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
REPOSITORY_PAGES: Final = ("ARCHITECTURE.md", "RELIABILITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
_LINK: Final = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
_ROW: Final = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"^\| reference \| (.+) \|$", re.MULTILINE)


class Unlisted(Exception):
    """A page that the table of docs/README.md does not name."""


def contents() -> list[tuple[str, str, str]]:
    """Title, path within the site, and description of every page, in reading order; the decisions are one entry."""
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    rows = [(title, _site_path(path), said) for title, path, said in _ROW.findall(text)]
    reference = _REFERENCE.search(text)
    for label, path in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", reference[1] if reference else ""):
        rows.append((f"Reference: {label}", path, "made from the code"))
    rows.append(("Changelog", _site_path("../CHANGELOG.md"), "what changed, by version"))
    rows.append(("Contributing", _site_path("../CONTRIBUTING.md"), "the verbs of the repository and its rules"))
    listed = {path for _, path, _ in rows}
    unlisted = [path for path in _pages() if path not in listed and not path.startswith(("decisions/", "README.md"))]
    within = {path for path in unlisted if f"{path.rpartition('/')[0]}/README.md" in listed}
    if set(unlisted) - within:
        raise Unlisted(f"not in the table of docs/README.md: {', '.join(sorted(set(unlisted) - within))}")
    return rows


def _pages() -> Iterator[str]:
    for path in sorted(DOCS.rglob("*.md")):
        yield path.relative_to(DOCS).as_posix()


def _site_path(path: str) -> str:
    """Where a page linked from docs/README.md is within the site."""
    return f"project/{path.removeprefix('../').lower()}" if path.startswith("../") else path


def build(target: Path) -> None:
    """Write the source of the site and its contents."""
    rows = contents()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target)
    (target / "project").mkdir()
    for name in REPOSITORY_PAGES:
        (target / "project" / name.lower()).write_text(_moved((ROOT / name).read_text(encoding="utf-8")), "utf-8")
    for page in target.rglob("*.md"):
        if page.parent.name != "project":
            page.write_text(_within(page.read_text(encoding="utf-8"), page, target), "utf-8")
    (target / "llms.txt").write_text(llms(rows), "utf-8")
    navigation: list[dict[str, str | list[str]]] = [{"relight": "README.md"}]
    navigation += [{title: path} for title, path, _ in rows]
    for title, folder in (("SDKs", "sdks/"), ("Frameworks", "frameworks/")):
        children = {path for path in _pages() if path.startswith(folder)} - {f"{folder}README.md"}
        navigation.append({f"{title}, one by one": sorted(children)})
    navigation.append({"Decisions, one by one": sorted(path for path in _pages() if re.match(r"decisions/\d", path))})
    configuration = Path(__file__).with_name("site.yml").read_text(encoding="utf-8")
    target.with_name("site.yml").write_text(f"{configuration}nav: {json.dumps(navigation)}\n", "utf-8")  # JSON is YAML


def _moved(text: str) -> str:
    """A page of the repository's root, now in `project/`."""

    def replaced(found: re.Match[str]) -> str:
        label, link = found.groups()
        path, mark, anchor = link.partition("#")
        if not path or "://" in link:
            return found[0]
        if path.startswith("docs/"):
            return f"{label}(../{path.removeprefix('docs/')}{mark}{anchor})"
        if path in REPOSITORY_PAGES:
            return f"{label}({path.lower()}{mark}{anchor})"
        return label[1:-1]  # a file of the source: named, and not part of the site

    return _LINK.sub(replaced, text)


def _within(text: str, page: Path, target: Path) -> str:
    """A page of docs/: links to the repository's own pages lead to their copies."""

    def replaced(found: re.Match[str]) -> str:
        label, link = found.groups()
        path, mark, anchor = link.partition("#")
        name = path.rpartition("/")[2]
        if name in REPOSITORY_PAGES:
            up = "../" * len(page.relative_to(target).parent.parts)
            return f"{label}({up}project/{name.lower()}{mark}{anchor})"
        return found[0]

    return _LINK.sub(replaced, text)


def llms(rows: list[tuple[str, str, str]]) -> str:
    """The pages as a list for programs that read: title, address within the site, description."""
    lines = [f"- [{title}]({path}): {said}" for title, path, said in rows]
    about = "Crash-proof AI agents: every step is saved; whatever kills an agent, it resumes where it stopped."
    return "\n".join(["# relight", "", f"> {about}", "", "## Docs", "", "- [Start](README.md)", *lines, ""])


def publish(source: Path, site: Path) -> None:
    """Copy the pages as text into the built site: llms.txt links to them."""
    for page in (source / "llms.txt", *source.rglob("*.md")):
        shutil.copyfile(page, site / page.relative_to(source))


if __name__ == "__main__":
    source, *site = (Path(word).resolve() for word in sys.argv[1:])
    if site:
        publish(source, site[0])
    else:
        build(source)
