"""Markdown as HTML that can do nothing: no raw HTML, no image, no address but http, https and mailto, no style.

A text is cut before it is read, and nesting is bounded, so that the time is bounded too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

from relight.server.reading.code import coloured, language_of
from relight.server.reading.inert import inert

MAX_TEXT: Final = 16 * 1024
"""characters of one text that are read as markdown; a longer one is plain"""
_COLUMNS: Final = 60
"""of a table: short rows are filled up to its width, so that a wide one multiplies the text"""
_NESTING: Final = 20
_SCHEMES: Final = ("http://", "https://", "mailto:")


def _is_address(url: str) -> bool:
    return url.strip().lower().startswith(_SCHEMES)


class _Renderer(RendererHTML):
    """Writes tokens that need more care than the library takes, under a policy without inline styles."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        """An image is not loaded: its text, as a link to its address."""
        token = tokens[idx]
        text = self.renderInlineAsText(token.children, options, env) or "image"
        return str(_link(str(token.attrs.get("src", ""))) + escape(f"[{text}]") + Markup("</a>"))

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return str(_link(str(tokens[idx].attrs.get("href", ""))))

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        words = tokens[idx].info.split(maxsplit=1)
        return str(block(tokens[idx].content, language_of(words[0]) if words else ""))

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return str(block(tokens[idx].content, ""))

    # A heading of a message is no heading of the page.
    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return '<p class="title">'

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "</p>\n"

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "<td><b>"

    def th_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "</b></td>"

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: Any) -> str:
        return "<td>"


def _link(url: str) -> Markup:
    if not _is_address(url):
        return Markup("<a>")
    return Markup('<a href="{}" rel="noreferrer noopener nofollow">').format(url)


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}, renderer_cls=_Renderer)
    reader.validateLink = _is_address  # type: ignore[method-assign]
    return reader.enable(["table", "strikethrough"])


def block(text: str, language: str) -> Markup:
    """A block of code."""
    return Markup('<pre class="code" tabindex="0"><code>{}</code></pre>\n').format(coloured(text, language))


def markdown(text: str) -> Markup:
    """A message of a person or a model as HTML. A text over the bounds is shown as it is."""
    if len(text) > MAX_TEXT or any(line.count("|") > _COLUMNS for line in text.split("\n")):
        return Markup('<pre class="text">{}</pre>').format(inert(text))
    return Markup(_reader().render(inert(text)))
