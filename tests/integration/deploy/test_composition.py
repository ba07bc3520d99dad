"""The container file and the composition are sound: what they name exists, nothing is open, nothing runs as root."""

from __future__ import annotations

import fnmatch
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml  # type: ignore[import-untyped]

from relight.cli.app.group import VERBS, Verbs, relight
from relight.settings import SETTINGS
from tests.house.files import ROOT

SERVICES: Final[dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
OURS: Final = {name: one for name, one in SERVICES.items() if "build" in one}
SERVERS_OWN: Final = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGPASSWORD"}
"""variables of PostgreSQL's image, and of the library that speaks to it"""
EXTRAS: Final = ("server", "postgres", "redis", "fleet", "s3")


def instructions() -> list[tuple[str, str]]:
    """Of the container file, continuation lines joined."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = [line.strip().partition(" ") for line in joined.splitlines()]
    return [(word, rest.strip()) for word, _, rest in found]


def parsed(words: list[str]) -> None:
    """Would the command line take this? UsageError where not."""
    assert isinstance(relight, Verbs)
    context = click.Context(relight, info_name="relight")
    verb = relight.get_command(context, words[0])
    assert verb is not None, words
    verb.make_context(words[0], list(words[1:]), parent=context)


# -- the composition -------------------------------------------------------------------------------------------


def test_there_is_a_database_a_server_and_two_workers() -> None:
    assert set(SERVICES) == {"postgres", "migrate", "server", "worker"}
    assert set(OURS) == {"migrate", "server", "worker"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_that_relight_takes(name: str) -> None:
    parsed([str(word) for word in OURS[name]["command"]])


def test_a_command_that_relight_does_not_take_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(["worker", "--threads", "2"])
    with pytest.raises(AssertionError):
        parsed(["work"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_is_a_setting_and_no_secret_is_written_down(name: str) -> None:
    given = SERVICES[name]["environment"]
    assert set(given) - {one.name for one in SETTINGS} - SERVERS_OWN == set()
    for variable, value in given.items():
        if "PASSWORD" in variable:
            assert re.fullmatch(r"\$\{\w+:\?.+\}", value), f"{variable} is asked for, and refused where it is missing"
        assert not re.search(r"://[^@/]*:[^@/]*@", str(value)), "no password in an address"


def test_nothing_is_open_to_other_machines() -> None:
    published = [port for one in SERVICES.values() for port in one.get("ports", [])]
    assert published
    assert [port for port in published if not str(port).startswith("127.0.0.1:")] == []
    (server,) = SERVICES["server"]["ports"]
    command = OURS["server"]["command"]
    assert server == f"127.0.0.1:{command[command.index('--port') + 1]}:{command[command.index('--port') + 1]}"


def test_who_depends_on_whom_exists_and_can_say_that_it_is_ready() -> None:
    for one in SERVICES.values():
        for other, how in one.get("depends_on", {}).items():
            condition = how["condition"]
            assert condition in ("service_healthy", "service_completed_successfully")
            assert condition != "service_healthy" or "healthcheck" in SERVICES[other]
            assert condition != "service_completed_successfully" or SERVICES[other]["restart"] == "no"
    named = {
        volume.partition(":")[0] for one in SERVICES.values() for volume in one.get("volumes", []) if volume[0] != "."
    }
    assert named == set(yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["volumes"])


def test_health_is_asked_where_the_server_listens() -> None:
    test = SERVICES["server"]["healthcheck"]["test"]
    assert test[:3] == ["CMD", "python", "-c"]
    compile(test[3], "healthcheck", "exec")
    command = OURS["server"]["command"]
    assert f":{command[command.index('--port') + 1]}/healthz" in test[3]


def test_a_worker_gets_the_time_to_drain() -> None:
    seconds = {"s": 1, "m": 60}
    grace = SERVICES["worker"]["stop_grace_period"]
    assert int(grace[:-1]) * seconds[grace[-1]] >= 60


# -- the image -------------------------------------------------------------------------------------------------


def test_everything_that_is_copied_exists_and_reaches_the_build() -> None:
    copied = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from=")
        for source in shlex.split(rest)[:-1]
    ]
    assert "src" in copied
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in let_in), f"{source} is ignored"
    assert set(let_in) == set(copied), "nothing else is let in"
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert set(hatch["wheel"]["packages"]) <= {"src/relight"}
    assert {hook["path"] for hook in hatch["wheel"].get("hooks", {}).values()} <= set(copied)


def test_bases_are_named_and_packages_are_pinned_with_their_hashes() -> None:
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert all(re.fullmatch(r"docker\.io/library/[a-z]+:[0-9][\w.-]*", base) for base in bases), bases
    runs = [rest for word, rest in instructions() if word == "RUN"]
    assert "npm" in runs[0].split(), "what tools/assets.py asks for the files of the pages"
    installing = [rest for rest in runs if "pip install" in rest]
    assert len(installing) == 2
    assert "--require-hashes" in installing[0]
    assert "--no-deps" in installing[1]
    assert re.fullmatch(r"docker\.io/library/postgres:\d+", SERVICES["postgres"]["image"])


def test_the_image_holds_what_its_services_need() -> None:
    """Every requirement of these extras is in the file of pins that it is made from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    names = {re.split(r"[\s\[<>=!~;]", one, maxsplit=1)[0].lower() for one in wanted}
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / "server.txt").read_text(), re.MULTILINE))
    assert names - pinned == set()
    assert _pins(ROOT / "requirements" / "server.txt").items() <= _pins(ROOT / "requirements" / "dev.txt").items()


def _pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_it_runs_relight_and_not_as_root() -> None:
    said = dict(instructions())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert said["ENTRYPOINT"] == '["relight"]'
    assert "relight" in project["scripts"]
    assert said["USER"] == "relight"
    assert said["STOPSIGNAL"] == "SIGTERM"
    words = re.findall(r'"([^"]+)"', said["CMD"])
    assert words[0] in VERBS
    parsed(words)
    order = [word for word, _ in instructions()]
    assert order.index("USER") > max(number for number, word in enumerate(order) if word == "RUN")
