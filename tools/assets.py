"""Third-party files of the pages: taken from their packages, checked against a pin, put where the server finds them.

Nothing of them is kept in this repository. `npm pack` brings each package from wherever npm is set up to look; of each
only the named files are taken, and only where their SHA-256 is the one written here. What is already there and right
is left alone, so a second run does nothing. Where npm is missing that is said, and it is no failure: the pages read and
act without these files; only plots, split diffs and swaps in place need them. A wheel is built by the same rule.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
VENDOR: Final = ROOT / "src" / "relight" / "server" / "assets" / "vendor"
SECONDS: Final = 120


class Taken(NamedTuple):
    """One file of a package."""

    member: str
    name: str
    sha256: str


PACKAGES: Final[dict[str, tuple[Taken, ...]]] = {
    "htmx.org@4.0.0": (
        Taken("dist/htmx.min.js", "htmx.js", "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f"),
        Taken("LICENSE", "htmx.LICENSE", "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38"),
    ),
    "uplot@1.6.32": (
        Taken("dist/uPlot.iife.min.js", "uplot.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
        Taken("dist/uPlot.min.css", "uplot.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
        Taken("LICENSE", "uplot.LICENSE", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
    ),
    "diff2html@3.4.56": (
        Taken(
            "bundles/js/diff2html.min.js",
            "diff2html.js",
            "a2110a09cee157bd5466da77be02107ac81a0baa2bc1f3fe81aac8183314598e",
        ),
        Taken(
            "bundles/css/diff2html.min.css",
            "diff2html.css",
            "d3ecc0e9b2b1e5c8466c19de29bed052fd0863475d25829ecc858446efded372",
        ),
        Taken("LICENSE.md", "diff2html.LICENSE", "6de794566a8feb4233594420299cec2dbfba51ae57201763541a5e7d627cb245"),
    ),
}


def missing(vendor: Path = VENDOR) -> list[str]:
    """The packages of which a file is not there, or is not the one that was pinned."""
    return [package for package, files in PACKAGES.items() if not all(_right(vendor / one.name, one) for one in files)]


def _right(path: Path, taken: Taken) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == taken.sha256


def provide(vendor: Path = VENDOR) -> list[str]:
    """Bring what is missing; what could not be had, in words."""
    troubles: list[str] = []
    for package in missing(vendor):
        if shutil.which("npm") is None:
            return ["npm is not installed, so plots, split diffs and swaps in place are left out of the pages"]
        try:
            _take(package, PACKAGES[package], vendor)
        except (OSError, subprocess.SubprocessError, tarfile.TarError, ValueError) as error:
            troubles.append(f"{package}: {error}")
    return troubles


def _take(package: str, files: tuple[Taken, ...], vendor: Path) -> None:
    """Pack, check every file, and only then put them in their place, each by a rename."""
    vendor.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        run = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=place,
            env=_trusting(os.environ),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        packed = list(Path(place).glob("*.tgz"))
        if run.returncode or len(packed) != 1:
            raise OSError(f"npm pack failed: {(run.stderr or run.stdout).strip()[-300:]}")
        content = _members(packed[0], [one.member for one in files])
    for one in files:
        found = hashlib.sha256(content[one.member]).hexdigest()
        if found != one.sha256:
            raise ValueError(f"{one.member} has the digest {found}, and {one.sha256} was pinned; it is not used")
    for one in files:
        partial = vendor / f".{one.name}.{os.getpid()}"
        partial.write_bytes(content[one.member])
        partial.replace(vendor / one.name)


def _members(archive: Path, names: list[str]) -> dict[str, bytes]:
    """The named files of a package, read in memory: nothing is unpacked, so no name in it becomes a path."""
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for name in names:
            stream = tar.extractfile(f"package/{name}")
            if stream is None:
                raise ValueError(f"{name} is no file of the package")
            found[name] = stream.read()
    return found


def _trusting(environment: os._Environ[str]) -> dict[str, str]:
    """npm trusts the certificates the system trusts."""
    system = "/etc/ssl/certs/ca-certificates.crt"
    known = dict(environment)
    if "NODE_EXTRA_CA_CERTS" not in known and os.path.exists(system):
        known["NODE_EXTRA_CA_CERTS"] = system
    return known


def main() -> int:
    """Tell what could not be had; that is no failure, since every page works without."""
    for trouble in provide():
        print(f"pages: {trouble}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
