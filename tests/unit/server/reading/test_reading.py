"""Foreign text made readable: what it says is all there, it can do nothing, and it takes bounded time."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from relight.agents.claude_code.dialect import CLAUDE_DIALECT
from relight.agents.codex.dialect import CODEX_DIALECT
from relight.agents.gemini.dialect import GEMINI_DIALECT
from relight.agents.opencode.dialect import OPENCODE_DIALECT
from relight.agents.pi.dialect import PI_DIALECT
from relight.journal.conversion.dialect import Dialect
from relight.server.reading.code import MAX_CODE, coloured, language_of
from relight.server.reading.difference import difference, hunk_lines
from relight.server.reading.inert import inert
from relight.server.reading.markup import MAX_TEXT, markdown
from relight.server.reading.terminal import plain, terminal
from relight.server.reading.tools import shown_call, shown_result
from tests.support.hostile_texts import MARKDOWN, payloads

ALLOWED = re.compile(
    r"""</?(p|ul|ol|li|pre|code|em|strong|s|blockquote|hr|br|table|thead|tbody|tr|td|b|span|div|a)"""
    r"""(\ (class|tabindex|role|aria-label|href|rel|start)="[^"<>]*")*\ ?/?>""",
    re.VERBOSE,
)


def words_of(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_markdown_is_formatted_and_loads_nothing() -> None:
    said = markdown(
        "# A\n\n- **b** `c`\n\n![pic](https://e.invalid/a.png)\n\n|x|y|\n|-|:-:|\n|1|2|\n\n```py\nif 1: pass\n```"
    )
    assert '<p class="title">A</p>' in said and "<strong>b</strong> <code>c</code>" in said
    assert '<a href="https://e.invalid/a.png" rel="noreferrer noopener nofollow">[pic]</a>' in said
    assert "<img" not in said and "style=" not in said and "<td>2</td>" in said
    assert '<span class="k">if</span>' in said


def test_an_address_that_is_not_of_the_web_is_no_link() -> None:
    for url in ("javascript:alert(1)", "data:text/html,x", "/sessions/x/do/remove", "vbscript:x", "file:///etc/passwd"):
        assert "<a href" not in markdown(f"[x]({url}) <{url}> ![i]({url})"), url


@pytest.mark.parametrize("make", [markdown, terminal, lambda text: coloured(text, "html")])
def test_hostile_text_stays_text(make: Any, sample: Callable[..., int]) -> None:
    around = ("{}", "```js\n{}\n```", "[{0}]({0})", "![{0}](<{0}>)", "| {} |\n|-|\n| {} |", "\x1b[31m{}\x1b]8;;{}\x07")
    for text in (*MARKDOWN, *payloads(500)[:: 500 // sample(25, proof=500)]):
        for form in around:
            made = str(make(form.replace("{0}", text).replace("{}", text)))
            assert "<" not in ALLOWED.sub("", made), (text, made)
            assert not re.search(r'href="(?!https?://|mailto:)', made, re.IGNORECASE), (text, made)
            assert not set(made) & set("\x1b\x07\x9b\u202e\u2066\x00"), text


def test_coloured_code_is_the_same_text() -> None:
    code = "def f(x):\n\treturn 'a' # ü\r\n\n\n  <b>&amp;\x00\n"
    for language in ("python", "json", "html", "bash", "diff", "", "nonsense"):
        assert words_of(coloured(code, language)) == inert(code), language
    assert '<span class="k">def</span>' in coloured(code, language_of("src/a.py"))
    assert [language_of(name) for name in ("Makefile", "a/b.TSX", "x.unknown", "")] == ["make", "typescript", "", ""]


def test_a_terminal_shows_what_a_person_saw() -> None:
    text = (
        "\x1b[1m== \x1b[32mok\x1b[0m ==\n 10%\r 50%\r100%\r\nab\bc\x1b]0;title\x07\x1b[2K\x1b[38;5;9mx\x1b[m \x9b31mred"
    )
    made = terminal(text)
    assert words_of(made) == "== ok ==\n100%\nacx red"
    assert '<span class="t-bold t-green">ok</span>' in made and '<span class="t-red">red</span>' in made
    assert plain("\x1b[31mno\x1b[0m") == "no"


@pytest.mark.parametrize("part", ["![", "*_", "|a", "\x1b]0;", '"${'])
def test_no_text_takes_long(part: str) -> None:
    begun = time.process_time()
    markdown((part * MAX_TEXT)[:MAX_TEXT])
    terminal((part * 8192)[:8192])
    for language in ("python", "bash", "html", "javascript"):
        lines = "\n".join([(part * 1000)[:1000]] * 16)
        coloured(lines[:MAX_CODE], language)
    assert time.process_time() - begun < 5


def test_a_text_over_the_bound_is_shown_as_it_is() -> None:
    long = "# a\n" * MAX_TEXT
    begun = time.process_time()
    assert words_of(markdown(long)) == long and coloured("if x\n" * MAX_CODE, "python") == "if x\n" * MAX_CODE
    difference("a\n" * 20_000, "b\n" * 20_000)
    assert time.process_time() - begun < 5


def test_a_difference_names_what_changed() -> None:
    assert difference("a\nb\nc", "a\nB\nc") == [("ctx", " a"), ("del", "-b"), ("add", "+B"), ("ctx", " c")]
    assert [kind for kind, _ in difference("x", "x")] == ["ctx"]


@pytest.mark.parametrize(
    ("name", "arguments", "form", "about", "seen"),
    [
        ("Bash", {"command": "ls -la", "description": "look"}, "command", "look", "ls -la"),
        ("exec_command", {"cmd": "ls", "yield_time_ms": 1}, "command", "", "ls"),
        ("shell", {"command": ["bash", "-lc", "make test"]}, "command", "", "make test"),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n+a\n"]}, "difference", "", "+a"),
        ("apply_patch", "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch", "difference", "", "+y"),
        ("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}, "difference", "a.py", "+x = 2"),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]}, "difference", "a", "+c"),
        ("Write", {"file_path": "n.md", "content": "one\ntwo\n"}, "difference", "n.md", "+two"),
        ("edit", {"path": "a", "edits": [{"oldText": "b", "newText": "c", "all": True}]}, "difference", "a", '"all"'),
        ("apply_patch", {"patchText": "*** Begin Patch\n+a\n"}, "difference", "", "+a"),
        ("Read", {"file_path": "a.py", "offset": 3}, "file", "a.py", '"offset": 3'),
        ("search", {"q": "x"}, "json", "", '"q": "x"'),
        ("Edit", {"file_path": 3}, "json", "", '"file_path": 3'),
        ("Bash", {"command": 7}, "json", "", '"command": 7'),
    ],
)
def test_a_call_is_shown_by_what_its_tool_does_and_nothing_is_left_out(
    name: str, arguments: Any, form: str, about: str, seen: str
) -> None:
    shown = shown_call(name, arguments)
    assert (shown.form, shown.about) == (form, about)
    assert seen in "\n".join([shown.text, shown.rest, *(line for _, line in shown.lines)])


@pytest.mark.parametrize("dialect", [CLAUDE_DIALECT, CODEX_DIALECT, GEMINI_DIALECT, OPENCODE_DIALECT, PI_DIALECT])
def test_the_tools_of_every_agent_are_shown_by_what_they_do(dialect: Dialect) -> None:
    given = {"cmd": "make test", "path": "src/a.py", "content": "whole", "old": "before", "new": "after"}
    forms = {"shell": "command", "write": "difference", "edit": "difference", "read": "file"}
    assert dialect.tools
    for tool in dialect.tools:
        shown = shown_call(tool.name, {native: given[name] for name, native in tool.fields.items() if name in given})
        assert shown.form == forms[tool.op], tool
        text = "\n".join([shown.text, shown.about, *(line for _, line in shown.lines)])
        assert all(given[name] in text for name in tool.fields if name in given) and not shown.rest, tool


def test_a_result_is_shown_by_what_its_tool_does() -> None:
    said = shown_result("Bash", {"stdout": "out", "stderr": "err", "interrupted": False}, failed=False)
    assert (said.form, said.text, said.rest) == ("terminal", "out\nerr", "")
    assert shown_result("Bash", '{"stdout": "out"}', failed=False).text == "out"
    read = {"type": "text", "file": {"filePath": "/a.py", "content": "x = 1"}}
    assert shown_result("Read", read, failed=False).folded and shown_result("Read", read, failed=False).text == "x = 1"
    assert not shown_result("Read", "no such file", failed=True).folded
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}
    edited = shown_result("Edit", {"filePath": "a", "structuredPatch": [hunk]}, failed=False)
    assert edited.lines == [("hunk", "@@ -1,1 +1,1 @@"), ("del", "-a"), ("add", "+b")]
    assert hunk_lines([{"lines": ["+x"]}]) == hunk_lines("x") == []
    assert shown_result("anything", ["a"], failed=False).text == '[\n  "a"\n]'
