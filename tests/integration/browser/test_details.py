"""Small things that were wrong once: times with room, words that agree, one truth a card, acts that can be done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.browser.conftest import Site, every_page, served
from tests.integration.browser.test_acting import confirm, editing
from tests.support.journals import Player
from tests.support.sample_sessions import Scenes
from tests.support.server_harness import ServerHarness
from tests.support.shell import eventually
from tests.unit.server.conftest import fill

NOUNS = (
    "files|turns|steps|sessions|messages|attempts|calls|forks|children|limits|crashes|hits|paths|lines|rows|times|"
    "events|workers|queues|tools|days|hours|minutes|seconds|leases|captures|effects"
)
WRONG = re.compile(
    rf"\b1 (?:{NOUNS})\b|\b1 \w+ are\b|\b1 \w+ differ\b|\d\.\d{{8,}}|- ago\b|archived archived"
    r"|\bundefined\b|\bNaN\b|\bNone\b"
)
LINES = """cell => { const range = document.createRange(); range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map(one => Math.round(one.top))).size; }"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    """Sessions of three days ago."""
    base = tmp_path_factory.mktemp("old")
    scenes = Scenes(base / "p.db", base / "src", hours_ago=72)
    scenes.fill()
    scenes.close()
    harness = ServerHarness(base / "p.db")
    try:
        yield from served(harness, browser)
    finally:
        harness.close()


def overlapping(page: Page) -> list[str]:
    found = page.locator("#rows .row > .tm").evaluate_all(
        """all => all.filter(one => one.offsetParent).filter(one => one.scrollWidth > one.clientWidth + 1
            || [...one.parentElement.children].some(other => other !== one && other.offsetParent
                && other.getBoundingClientRect().left >= one.getBoundingClientRect().left
                && Math.abs(other.getBoundingClientRect().top - one.getBoundingClientRect().top) < 4
                && other.getBoundingClientRect().left < one.getBoundingClientRect().right - 1))
            .map(one => one.parentElement.innerText.slice(0, 60))"""
    )
    return list(found)


def test_the_date_of_an_old_step_has_room_beside_the_next_column(old: Site) -> None:
    """W-B3."""
    session = old.rl.sessions.get("fix-login").id
    for width in (1440, 1280, 1024, 800):
        for density in ("turns", "steps", "events"):
            page = old.page(f"/sessions/{session}?density={density}", viewport={"width": width, "height": 900})
            assert overlapping(page) == [], (width, density)
    times = page.locator("#rows .row > .tm").all_inner_texts()
    assert any(re.search(r"\d\d-\d\d|[A-Z][a-z]{2}", one) for one in times), "the day is told"


CUT = "one => one.scrollWidth > one.clientWidth"


def test_a_long_name_and_many_attempts_are_read_whole(site: Site) -> None:
    name = "-".join(["nightly", "regression", "of", "every", "service", "in", "all", "regions", "and", "languages"])
    for _ in range(12):
        site.rl.session(name, agent="mine").close()
    session = site.rl.sessions.get(name).id
    for width in (1440, 1024, 390):
        page = site.page("/", viewport={"width": width, "height": 900})
        status = page.locator("tr.s td.st")
        expect(status).to_contain_text("×12")
        assert not status.evaluate(CUT), width
        page.goto(site.address(f"/sessions/{session}"))
        told = page.locator("#head").get_by_text(name, exact=True)
        assert not all(told.evaluate_all(f"all => all.map({CUT})")), width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


@pytest.mark.parametrize("width", [1440, 1280, 1024])
def test_a_long_label_leaves_the_buttons_of_its_step_whole(site: Site, width: int) -> None:
    with site.rl.session("job", agent="mine") as s:
        s.append({"role": "user", "content": "go"})
        s.checkpoint("before everything that one may want to go back to and then some more words")
        s.checkpoint("short-one")
    page = site.page(f"/sessions/{s.id}", viewport={"width": width, "height": 900})
    expect(page.locator("#rows .do .button")).to_have_count(6)
    outside = """all => all.filter(one => {
        const box = one.getBoundingClientRect(), text = one.closest('.tx').getBoundingClientRect();
        return box.right > text.right + 1 || box.bottom > text.bottom + 1; }).map(one => one.textContent)"""
    assert page.locator("#rows .do .button").evaluate_all(outside) == []


@pytest.mark.parametrize("width", [320, 390, 1024])
def test_an_open_menu_widens_no_page(site: Site, width: int) -> None:
    with site.rl.session("job") as s:
        s.complete("done")
    page = site.page("/", viewport={"width": width, "height": 844})
    for address, menu in (("/", "#views"), (f"/sessions/{s.id}", "#head .more")):
        page.goto(site.address(address))
        page.locator(f"{menu} > summary").click()
        expect(page.locator(f"{menu} > div")).to_be_visible()
        edges = "one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
        left, right = page.locator(f"{menu} > div").evaluate(edges)
        assert left >= 0 and right <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_only_children_cost_is_on_the_page_of_their_parent(site: Site) -> None:
    with site.rl.session("research") as s:
        s.append({"role": "user", "content": "go"})
        with s.spawn("ada") as child:
            child.append({"role": "assistant", "content": "ok"}, usage={"cost": 2.0, "input_tokens": 1})
    expect(site.page(f"/sessions/{s.id}").locator("#head")).to_contain_text("$2.00 with children and forks")


def test_the_axis_of_costs_is_as_wide_as_its_numbers(site: Site) -> None:
    with site.rl.session("dear", agent="mine") as s:
        s.append({"role": "user", "content": "go"})
        for _ in range(3):
            s.append({"role": "assistant", "content": "ok"}, usage={"cost": 41_152.5, "input_tokens": 1})
    page = site.page(f"/sessions/{s.id}")
    expect(page.locator(".burn canvas")).to_be_visible()
    # uPlot draws its labels on the canvas: the plot begins right of the longest one.
    left = page.locator(".burn .u-over").evaluate("one => one.offsetLeft")
    longest = page.evaluate(
        "() => { const pen = document.createElement('canvas').getContext('2d'); pen.font = '11px system-ui';"
        " return pen.measureText('$100000.00').width; }"
    )
    assert left >= longest + 8


def test_a_card_has_one_truth_about_a_resume_that_only_the_program_can_do(site: Site) -> None:
    """W-B13."""
    fill(site.rl)
    page = site.page(f"/checkpoints/{site.rl.sessions.get('port-to-uv').id}@2")
    expect(page.locator(".verdict")).to_have_text("✓ Can be resumed by running your program again.")
    expect(page.locator(".acts [aria-disabled=true]", has_text="Resume from here…")).to_have_count(1)


def test_the_axis_of_a_short_run_names_each_time_once_and_no_cost_is_zero(site: Site) -> None:
    """W-B14."""
    with site.rl.session("short", agent="mine", provider="openai") as s:
        for number in range(8):
            usage = {"input_tokens": 10, "output_tokens": 1, "cost": 0.0004}
            s.append({"role": "assistant", "content": f"step {number}"}, usage)
        s.complete(1)
    context = site.context()
    context.add_init_script(
        """globalThis.drawn = []; const draw = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
            if (text) globalThis.drawn.push(text);
            return draw.call(this, text, ...at); };"""
    )
    page = site.page(f"/sessions/{s.id}", context=context)
    page.locator(".u-over").wait_for()
    page.evaluate("globalThis.drawn = []; document.dispatchEvent(new CustomEvent('relight:theme'))")
    page.wait_for_function("drawn.length > 2")
    texts = page.evaluate("drawn")
    times, costs = [one for one in texts if ":" in one], [one for one in texts if "$" in one]
    assert times and len(times) == len(set(times)), texts
    assert len(costs) == len(set(costs)) and any(re.fullmatch(r"\$0\.00\d*[1-9]0*", one) for one in costs), texts
    expect(page.locator("#rows")).to_contain_text("$0.0004")
    expect(page.locator("#head")).to_contain_text("$0.0032")


def test_a_file_that_cannot_be_compared_does_not_widen_a_phone(site: Site, tmp_path: Path) -> None:
    """W-B15."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a-picture-with-a-rather-long-name.bin").write_bytes(bytes(range(256)) * 40)
    with site.rl.session("files", agent="mine", provider="openai", workspace=work) as s:
        s.append({"role": "user", "content": "edit"})
        s.checkpoint("before")
        (work / "a-picture-with-a-rather-long-name.bin").write_bytes(bytes(range(255, -1, -1)) * 40)
        s.append({"role": "assistant", "content": "edited"})
        s.halt("enough")
    page = site.page("/", viewport={"width": 320, "height": 800})
    for path in (f"/sessions/{s.id}?tab=files", f"/checkpoints/{s.id}@before"):
        page.goto(site.address(path))
        expect(page.locator("main")).to_contain_text("not text, or too large to compare")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path


def test_an_open_call_leaves_the_words_of_its_row_whole(old: Site) -> None:
    """W-B16."""
    page = old.page(f"/sessions/{old.rl.sessions.get('fix-login').id}?tab=calls")
    page.evaluate("document.querySelectorAll('#tab details').forEach(fold => { fold.open = true; })")
    for width in (1440, 1024):
        page.set_viewport_size({"width": width, "height": 900})
        rows = page.locator("#tab tbody tr")
        for cell in [*rows.locator("th").all()[:6], *rows.locator("td:nth-child(3)").all()[:6]]:
            assert cell.evaluate(LINES) == 1, (width, cell.inner_text())


def test_undo_is_offered_where_there_is_something_to_undo_and_an_export_is_a_file(site: Site, tmp_path: Path) -> None:
    """W-B17."""
    session = editing(site, tmp_path / "work")
    page = site.page(f"/sessions/{session}")
    page.locator("summary", has_text="More").click()
    expect(page.locator(".more a[data-verb=undo]")).to_have_count(0)
    expect(page.locator(".more")).to_contain_text("no rewind or restore to undo")
    site.rl.history.rewind(f"{session}@3", conversation=True, files=False)
    page.goto(site.address(f"/sessions/{session}"))
    page.locator("summary", has_text="More").click()
    expect(page.locator(".more a[data-verb=undo]")).to_have_count(1)
    page.locator(".more a[data-verb=export]").click()
    with page.expect_download() as download:
        confirm(page).click()
    assert download.value.path().stat().st_size > 500


def test_numbers_and_their_words_agree_on_every_page(old: Site, site: Site) -> None:
    """W-B18."""
    with site.rl.session("one", agent="mine", provider="openai", labels={"team": "web"}) as s:
        usage = {"input_tokens": 10, "output_tokens": 1, "cost": 9.1 + 0.6}
        s.append({"role": "user", "content": "only"})
        s.append({"role": "assistant", "content": "done"}, usage)
        s.complete(1)
    site.rl.sessions.archive("one")
    of_one = [f"/sessions/{s.id}", f"/sessions/{s.id}?tab=raw", f"/checkpoints/{s.id}@2", "/?archived=1", "/operations"]
    visits = [(old, list(every_page(old).values())), (site, [*of_one, "/costs", "/search?q=only", "/do/archive"])]
    for where, paths in visits:
        page = where.page("/")
        for path in paths:
            page.goto(where.address(path))
            text = page.locator("body").inner_text()
            said = [text[max(0, one.start() - 30) : one.end() + 10] for one in WRONG.finditer(text)]
            assert said == [], (path, said)


def test_a_tool_call_is_read_as_a_command_and_its_terminal_text_at_every_width(site: Site) -> None:
    session = Player(site.rl, "claude-code", "job").play().session
    page = site.page(f"/sessions/{session}?tab=calls")
    row = page.locator("#tab tbody tr").first
    expect(row.locator("summary")).to_contain_text("printf")
    row.locator("summary").click()
    expect(row.locator("pre.command")).to_contain_text("printf")
    expect(row.locator("pre.term")).to_contain_text("one")
    page.set_viewport_size({"width": 390, "height": 844})
    wide = """pre => pre.getBoundingClientRect().width > 300"""
    eventually(lambda: bool(row.locator("pre.term").evaluate(wide)), what="the terminal text to use the whole width")
