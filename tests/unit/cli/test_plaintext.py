"""Whatever an agent, a name or an error says: the terminal gets printable characters and obeys nothing."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import relight
from relight.cli.render.cells import block, cells, cut, pad, wrap
from relight.text.safe import inert, one_line
from tests.support.figures import Figure
from tests.support.shell import Shell

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x9b31m",
    "\x9d0;x\x9c",
    "\x1bP$q\x1b\\",
    "\r$ rm -rf ~",
    "a\x08b\x7f",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\ufeff\u200b\u2060",
    "\x00\x01\x0b\x0c\x85\u2028\u2029",
    "z" + "\u0301" * 200,
    "\ud800lone",
    "\U000e0041tag",
]
texts = st.text(st.characters() | st.sampled_from("\x1b\x9b\x07\r\n\t\u202e\u200d\u0301世界"), max_size=80)


def dangerous(text: str) -> list[str]:
    """Characters that a terminal might act on, other than line ends."""
    return [
        character
        for character in text
        if character != "\n" and (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDI)
    ]


@given(texts)
def test_a_cleaned_text_is_printable_and_cleaning_it_again_changes_nothing(text: str) -> None:
    shown = inert(text)
    assert not dangerous(shown)
    assert "\n" not in shown
    assert inert(shown) == shown


@given(texts, st.integers(1, 60))
def test_cut_text_never_takes_more_cells_than_given(text: str, width: int) -> None:
    shown = one_line(text)
    assert cells(cut(shown, width)) <= width
    if cells(shown) <= width:
        assert cut(shown, width) == shown
        assert cells(pad(shown, width)) == width


@given(texts, st.integers(8, 60))
def test_wrapping_keeps_every_character_and_the_width(text: str, width: int) -> None:
    shown = one_line(text)
    lines = wrap(shown, width)
    assert all(cells(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == shown.replace(" ", "")


@given(texts)
def test_a_block_keeps_its_bound_and_says_what_it_leaves_out(text: str) -> None:
    lines = block(text * 20, max_lines=8)
    assert len(lines) <= 8
    assert not any(dangerous(line) for line in lines)


def _payloads(count: int) -> list[str]:
    chance = random.Random(23)
    alphabet = "".join(chr(code) for code in [*range(0xA0), 0x2028, 0x2029]) + BIDI + "世é\u0301\u200d[]0;m"
    made = ["".join(chance.choices(alphabet, k=chance.randint(1, 60))) for _ in range(count - len(HOSTILE))]
    return HOSTILE + made


@pytest.mark.guarantee("G23")
def test_hostile_text_is_inert_on_a_real_terminal(
    shell: Shell, rl: relight.Relight, sample: Callable[..., int], figure: Figure
) -> None:
    payloads = _payloads(sample(250, proof=5000, teeth=60))
    with rl.session("hostile", agent=HOSTILE[0], task=HOSTILE[1], labels={"k": HOSTILE[2]}) as s:
        for payload in payloads:
            s.append({"role": "assistant", "content": payload})
        function = {"name": HOSTILE[3], "arguments": json.dumps({"x": HOSTILE[0]})}
        s.append({"role": "assistant", "tool_calls": [{"id": HOSTILE[8], "type": "function", "function": function}]})
        s.fail(HOSTILE[0] + HOSTILE[4])
    for words in (
        ["list"],
        [],
        ["show", "hostile", "--verbose"],
        ["show", "hostile", "--short"],
        ["tail", "hostile", "-n", str(len(payloads) + 10)],
        ["tail", "hostile", "-n", "600", "--json"],
        ["show", "hostile", "--verbose", "--json"],
        ["can-resume", "hostile"],
        ["show", HOSTILE[0]],
        ["send", "hostile\x1b[2J", HOSTILE[8]],
        [HOSTILE[0]],
        ["list", "--label", HOSTILE[2]],
    ):
        screen = shell.screen(*words, NO_COLOR="1")
        assert not dangerous(screen.text), (words, dangerous(screen.text))
    colored = shell.screen("tail", "hostile", "-n", "600").text
    assert not dangerous(re.sub(r"\x1b\[(0|1|2|3[1-6])m", "", colored))
    figure("G23", f"{len(payloads)} hostile strings through a terminal, 0 obeyed")
