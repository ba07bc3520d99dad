"""What every test may rely on: a home of its own, a size for its samples, programs there or a loud failure.

Sizes of a run, told apart by the environment: the suite (minutes), RELIGHT_PROOF=1 (the full figures, hours),
RELIGHT_TEETH (one test against a planted bug; the value is the directory of the patched source). As small as the last
are RELIGHT_ELSEWHERE (a machine without Linux's special calls) and RELIGHT_PYTHON (another version of Python).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import relight.wiring  # noqa: F401  installs what agents and frameworks teach the journal, for pure tests too

pytest_plugins = ["tests.support.figures", "relight.testing", "tests.support.recorded_spans"]

ROOT = Path(__file__).resolve().parent.parent
PROOF = bool(os.environ.get("RELIGHT_PROOF"))
PROOF_SECONDS = 6 * 3600
"""a test with its full figures that takes longer hangs"""
TEETH = os.environ.get("RELIGHT_TEETH", "")
ELSEWHERE = bool(os.environ.get("RELIGHT_ELSEWHERE"))
SMALL = bool(TEETH or ELSEWHERE or os.environ.get("RELIGHT_PYTHON"))

hypothesis.settings.register_profile("suite", deadline=None, print_blob=True, max_examples=20)
hypothesis.settings.register_profile("teeth", deadline=None, print_blob=True, max_examples=100)
hypothesis.settings.register_profile("proof", deadline=None, print_blob=True, max_examples=5_000)
hypothesis.settings.load_profile("proof" if PROOF else "teeth" if TEETH else "suite")


def pytest_configure(config: pytest.Config) -> None:
    """Signals as on a terminal; and a run against a planted bug must really import the planted bug."""
    # A shell starts background jobs with SIGINT ignored, which children inherit: Ctrl-C tests would wait forever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not TEETH:
        return
    import relight

    origin = Path(relight.__file__ or "").resolve()
    if not origin.is_relative_to(Path(TEETH).resolve()):
        raise pytest.UsageError(f"relight came from {origin}, not from the patched copy in {TEETH}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first; proofs with a bound of their own; and without those about a Linux call itself, where these
    calls do not exist."""
    for item in items:
        if item.get_closest_marker("agents") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))  # several starts of programs that take seconds alone
        if PROOF:  # in place of a bound that was chosen for a sample
            item.add_marker(pytest.mark.timeout(PROOF_SECONDS), append=False)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)  # one begun last is waited for by idle workers
    if not ELSEWHERE:
        return
    from tests.support.elsewhere import left_out

    _, linux_calls = left_out()
    out = [item for item in items if item.nodeid.partition("[")[0] in linux_calls]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def _changes_output(name: str) -> bool:
    """Whether a setting of the caller's changes what Python, pytest or a terminal program prints or refuses. Those that
    say where code comes from and goes to stay."""
    if name.startswith("PYTHON"):
        return name not in ("PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
    colours = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "PYCHARM_HOSTED")
    return name in (*colours, "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_THEME", "PYTEST_THEME_MODE")


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test reads or writes the home, the store or the settings of whoever runs it, and no program that a test starts
    prints anything else because of them."""
    home = tmp_path_factory.mktemp("home")
    ours = {"RELIGHT_TEETH", "RELIGHT_PROOF"}
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RELIGHT_") and name not in ours]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        for name in [name for name in os.environ if _changes_output(name)]:
            patch.delenv(name)
        yield home


@pytest.fixture(scope="module", autouse=True)
def no_server_is_left() -> Iterator[None]:
    """A test that fails half way leaves no `relight serve` behind, which would slow and disturb all others."""
    yield
    servers = sys.modules.get("tests.support.server_process")
    left = servers.end_those_left() if servers else []
    assert not left, f"servers were left running, and are ended now: {left}"


@pytest.fixture(scope="session")
def sample() -> Callable[..., int]:
    """How many to try: `sample(500, proof=10_000, teeth=50)`; else the suite's own number."""

    def choose(suite: int, *, proof: int | None = None, teeth: int | None = None) -> int:
        if PROOF and proof is not None:
            return proof
        if SMALL and teeth is not None:
            return teeth
        return suite

    return choose


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """The path of a system program; where it is missing the test fails with the command that installs it."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            hint = subprocess.run(
                [ROOT / "tools" / "system-packages", "--hint"], capture_output=True, text=True, check=False
            ).stderr.strip()
            pytest.fail(f"{name} is missing: {hint or 'name it in tools/system-packages'}", pytrace=False)
        return path

    return find
