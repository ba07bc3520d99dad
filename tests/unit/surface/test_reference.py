"""docs/reference/python.md: every public name appears in it, as the code has it."""

from __future__ import annotations

import relight
from relight import testing, types
from tests.house.files import ROOT
from tools.python_reference import python_page
from tools.surface import NOUNS


def test_every_field_of_a_public_type_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    sections = {one.partition("`")[0].rpartition(".")[2]: one for one in page.split("\n- `relight.")}
    structs = {
        name: getattr(types, name, None) or getattr(relight, name) for name in (*types.__all__, *relight.__all__)
    }
    missing = [
        f"{name}.{field}"
        for name, one in structs.items()
        for field in getattr(one, "__struct_fields__", ())
        if f"  - `{field}:" not in sections.get(name, "")
    ]
    assert missing == []
    assert "### turn.number\n" in page
    assert "### call.call\n" in page


def test_every_public_name_is_in_the_reference_and_it_is_fresh() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert page == python_page(), "run: make docs"
    modules = ("aio", "errors", "types")
    assert [name for name in (*relight.__all__, *types.__all__) if f".{name}" not in page and name not in modules] == []
    assert [name for name in testing.__all__ if f"### relight.testing.{name}\n" not in page] == []
    with relight.open("memory:") as rl, rl.session("a") as s:
        verbs = [f"{noun}.{verb}" for noun in NOUNS for verb in dir(getattr(rl, noun)) if not verb.startswith("_")]
        assert [verb for verb in verbs if f"### rl.{verb}\n" not in page] == []
        assert [verb for verb in dir(s) if not verb.startswith("_") and f"### s.{verb}\n" not in page] == []
