"""Hostile text in every field stays text: no script runs, no markup arises, nothing is even refused by the policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

import relight
from relight.ports.store import Record
from relight.values.session import Head, Identity
from relight.values.status import Failure
from tests.integration.browser.conftest import Site
from tests.integration.browser.test_access import unfolded
from tests.support.figures import Figure
from tests.support.hostile_texts import payloads

pytestmark = [pytest.mark.guarantee("G23"), pytest.mark.timeout(400)]

WATCH = """
globalThis.pwned = 0;
globalThis.violations = [];
for (const name of ['alert', 'confirm', 'prompt', 'open']) globalThis[name] = () => { pwned++; };
document.addEventListener('securitypolicyviolation', (one) => violations.push(one.blockedURI + one.violatedDirective));
"""
ARISEN = """() => [
    ...[...document.querySelectorAll('*')].filter((one) => one.getAttributeNames().some((name) => /^on/.test(name))),
    ...[...document.querySelectorAll('script')].filter((one) => !one.src.startsWith(location.origin + '/assets/')),
    ...[...document.querySelectorAll('a, form')].filter((one) => /^(javascript|data):/i.test(one.href || one.action)),
    ...document.querySelectorAll('iframe, object, embed, base, style, math, meta[http-equiv], [hx-get]'),
].map((one) => one.outerHTML.slice(0, 200))"""


def in_the_list(store: Path, texts: list[str]) -> None:
    """A session for each text, which it has in every field that a list or a header shows."""
    now = round(time.time() * 1e6)
    records = []
    for n, text in enumerate(texts):
        identity = Identity(
            id=f"{n:032x}",
            agent=text,
            provider=text,
            model=text,
            key=text,
            task=text,
            labels={text[:60] or "k": text},
            metadata={text: [text]},
            directory=f"/srv/{text}",
            runtime=text,
            workspace={"main": f"/srv/{text}"} if n % 9 == 0 else {},
            created_us=now - n * 1000,
        )
        status: Any = ("waiting", "failed", "halted", "completed", "terminated")[n % 5]
        head = Head(
            session=identity.id,
            status=status,
            reason=text,
            question=text if status == "waiting" else None,
            failure=Failure(kind=text[:80], text=text, fields={"type": text}) if status == "failed" else None,
            said=text,
            handle=text,
            updated_us=now - n * 1000,
        )
        records.append(Record(identity=identity, head=head))
    with relight.open(store) as rl:
        rl.store.import_sessions(records, [], [])


def called(n: int, text: str) -> tuple[str, dict[str, Any]]:
    """A tool and its input: one of the tools that have a view of their own, or one of the text's name."""
    return (
        ("Bash", {"command": text, "description": text}),
        ("Edit", {"file_path": text, "old_string": text, "new_string": f"{text}\n{text}"}),
        ("Write", {"file_path": "a.html", "content": text}),
        ("Read", {"file_path": text}),
        ("apply_patch", {"input": f"*** Begin Patch\n-{text}\n+{text}"}),
        (text[:60] or "x", {text[:50]: text}),
    )[n % 6]


def told(n: int, text: str) -> str:
    """The text in a place of markdown: as it is, in a fence, as a link, an image, a table, a heading."""
    forms = ("{}", "```html\n{}\n```", "[{}]({})", "![{}]({})", "| {} |\n|-|\n| {} |", "# {}\n\n> {}\n\n<{}>")
    return forms[n // 6 % 6].replace("{}", text)


def in_the_journal(rl: Any, texts: list[str], work: Path) -> str:
    """One session that says every text, calls tools by it and hears it, with files of that name and content."""
    work.mkdir()
    s = rl.session("hostile", agent="mine", provider="anthropic", workspace=work, snapshot="manual")
    s.append({"role": "user", "content": texts[0]})
    s.snapshot()
    for n, text in enumerate(texts):
        name, given = called(n, text)
        blocks = [
            {"type": "thinking", "thinking": text, "signature": "c2ln"},
            {"type": "text", "text": told(n, text)},
            {"type": "tool_use", "id": f"c{n}-{text[:20]}", "name": name, "input": given},
        ]
        image = {"type": "image", "source": {"type": "url", "url": text}}
        result = {"type": "tool_result", "tool_use_id": f"c{n}-{text[:20]}", "content": text, "is_error": n % 2 == 0}
        with s.batch():
            s.append({"role": "assistant", "content": blocks})
            s.append({"role": "user", "content": [result, image]})
            s.state[text[:50] or "k"] = text
    for n, text in enumerate(texts[:60]):
        name = text.replace("/", "_").replace("\0", "_").encode("utf-8", "replace")[:120].decode("utf-8", "ignore")
        (work / (name.strip(". ") or f"f{n}")).write_text(f"{text}\n", encoding="utf-8", errors="replace")
    s.snapshot()
    s.checkpoint("after")
    session = str(s.id)
    s.halt(texts[20])
    s.close()
    return session


def assert_inert(page: Page) -> None:
    assert page.evaluate("pwned") == 0, f"a script ran on {page.url}"
    assert page.evaluate("violations") == [], f"something was only stopped by the policy on {page.url}"
    assert page.evaluate(ARISEN) == [], f"markup arose on {page.url}"
    text = page.locator("main").inner_text()
    assert not set(text) & set("\x1b\x07\x9b\u202e\u2066\u2069\u200b"), f"a control character was shown on {page.url}"


def test_five_hundred_payloads_in_every_field_are_only_text(
    tmp_path: Path, over: Callable[[Path], Site], sample: Callable[..., int], figure: Figure
) -> None:
    texts = payloads(500)
    assert len(set(texts)) == 500
    in_the_list(tmp_path / "p.db", texts)
    with relight.open(tmp_path / "p.db") as rl:
        session = in_the_journal(rl, texts, tmp_path / "work")
    site = over(tmp_path / "p.db")
    context = site.context()
    context.add_init_script(WATCH)
    page = site.page("/", context=context)
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    looked = 0

    def look(path: str) -> None:
        nonlocal looked
        page.goto(site.address(path))
        unfolded(page, "details")
        expect(page.locator("[data-src][data-from]")).to_have_count(0)
        assert_inert(page)
        looked += 1

    path: str | None = "/"
    for _ in range(10):
        if path is None:
            break
        look(path)
        older = page.get_by_role("link", name="next ›")
        path = (older.get_attribute("href") or "") if older.count() else None
    assert path is None, "the list did not end"
    for after in (0, 200, 400):
        for density in ("turns", "steps", "events"):
            look(f"/sessions/{session}?after={after}&density={density}")
        look(f"/sessions/{session}?tab=conversation&after={after}")
        look(f"/sessions/{session}?tab=calls&first={after}")
    for seq in range(4, 500, 500 // sample(12, proof=490)):
        look(f"/sessions/{session}?at=@{seq}")
    for path in ("?tab=files", "?tab=raw", "?plots=1", f"?q={'%3Cscript%3E'}"):
        look(f"/sessions/{session}{path}")
    look(f"/checkpoints/{session}@2?compare=head")
    page.get_by_role("link", name="split").click()
    assert_inert(page)
    look("/operations?resumes=1")
    look("/do/archive")
    every = 500 // sample(5, proof=250)
    for n in range(0, 500, every):
        one = f"{n:032x}"
        look(f"/sessions/{one}")
        look(f"/sessions/{one}?tab=raw")
        for verb in ("resume", "remove", "send", "clear"):
            page.evaluate("address => relight.openDialog(address)", f"/sessions/{one}/do/{verb}")
            page.locator("#dialog h2").wait_for()
            assert_inert(page)
            page.evaluate("document.querySelector('#dialog').close()")
    for text in texts[::50]:
        look(f"/?{urlencode({'q': text, 'directory': text, 'label': f'k={text}'}, errors='replace')}")
    assert asked == {urlsplit(site.address("/")).netloc}, "something was requested from elsewhere"
    figure("G23", f"500 payloads in every field, {looked} pages in a real browser: 0 scripts run, 0 elements arisen")
