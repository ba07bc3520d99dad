"""Other people's files: only what was pinned is ever used, and nothing breaks where it cannot be had."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
NPM = """#!{python}
import pathlib, shutil, sys
assert sys.argv[1:3] == ["pack", "--silent"], sys.argv
shutil.copy({packed!r}, "thing-1.0.0.tgz")
"""


@pytest.fixture
def assets() -> Any:
    spec = spec_from_file_location("assets_under_test", ROOT / "tools" / "assets.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called npm that packs what lies in a file, as the real one does."""
    packed = tmp_path / "packed.tgz"
    with tarfile.open(packed, "w:gz") as tar:
        for name, content in (("package/dist/thing.js", b"let x = 1;\n"), ("package/LICENSE", b"free\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.write_text(NPM.format(python=sys.executable, packed=str(packed)))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def pins(assets: Any, content: bytes) -> dict[str, Any]:
    licence = hashlib.sha256(b"free\n").hexdigest()
    return {
        "thing@1.0.0": (
            assets.Taken("dist/thing.js", "thing.js", hashlib.sha256(content).hexdigest()),
            assets.Taken("LICENSE", "thing.LICENSE", licence),
        )
    }


def test_what_is_pinned_is_taken_with_its_licence_and_not_again(
    assets: Any, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "PACKAGES", pins(assets, b"let x = 1;\n"))
    vendor = registry / "vendor"
    assert assets.provide(vendor) == []
    assert sorted(path.name for path in vendor.iterdir()) == ["thing.LICENSE", "thing.js"]
    monkeypatch.setenv("PATH", "/nonexistent")
    assert assets.missing(vendor) == [] and assets.provide(vendor) == []


def test_another_content_than_the_pinned_one_is_never_put_in_place(
    assets: Any, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "PACKAGES", pins(assets, b"let x = 2;\n"))
    (trouble,) = assets.provide(registry / "vendor")
    assert "was pinned; it is not used" in trouble
    assert list((registry / "vendor").iterdir()) == []


def test_a_file_that_was_changed_on_disk_is_brought_again(
    assets: Any, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "PACKAGES", pins(assets, b"let x = 1;\n"))
    vendor = registry / "vendor"
    assets.provide(vendor)
    (vendor / "thing.js").write_text("let x = 'evil';\n")
    assert assets.missing(vendor) == ["thing@1.0.0"]
    assert assets.provide(vendor) == [] and (vendor / "thing.js").read_text() == "let x = 1;\n"


def test_without_npm_it_is_said_and_is_no_failure(assets: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    (trouble,) = assets.provide(tmp_path / "vendor")
    assert "npm is not installed" in trouble


def test_every_pin_names_a_version_and_brings_a_licence(assets: Any) -> None:
    for package, taken in assets.PACKAGES.items():
        assert package.rpartition("@")[2].replace(".", "").isdigit(), package
        assert any(one.name.endswith(".LICENSE") for one in taken), package
        assert all(len(one.sha256) == 64 for one in taken)
