"""A service that resumes running sessions after a reboot: a systemd user unit, or a launchd agent on macOS."""

from __future__ import annotations

import plistlib
import sys
from collections.abc import Mapping
from typing import Any, Final

from relight.errors import UsageError
from relight.system.platform import Platform
from relight.text.safe import safe_address

_LABEL: Final = "relight.resume"
_FILE: Final = ".config/relight.env"
"""in the home directory, mode 0600: the variables of a store whose address has a password"""
_RESUME: Final = ("-P", "-m", "relight.cli", "resume", "--all", "--yes")


def service_file(store: str, platform: Platform, environment: Mapping[str, str], home: str) -> list[str]:
    """The lines of the service's file, with a comment that says where to save it. UsageError on other platforms."""
    if platform.is_macos:
        return _agent(store, environment, home)
    if platform.is_linux:
        return _unit(store, environment)
    hints = ["have this run when the machine has started: relight resume --all --yes"]
    raise UsageError(
        f"no service is known for {platform.system}; there are: systemd (Linux), launchd (macOS)", hints=hints
    )


def _path(environment: Mapping[str, str]) -> str:
    """The present PATH: that of a service manager has no coding agent in it."""
    return environment.get("PATH", "/usr/bin:/bin")


def _unit(store: str, environment: Mapping[str, str]) -> list[str]:
    """A systemd user unit. `KillMode=process`: the supervisors that it starts outlive it."""
    variables = f"EnvironmentFile=%h/{_FILE}" if _is_secret(store) else f"Environment={_word(f'RELIGHT_STORE={store}')}"
    return [
        "# systemctl --user enable relight.service, after saving this as ~/.config/systemd/user/relight.service",
        "[Unit]",
        "Description=relight: resume the agents that were running",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        "KillMode=process",
        f"Environment={_word(f'PATH={_path(environment)}')}",
        variables,
        f"ExecStart={' '.join(_word(word.replace('$', '$$')) for word in (sys.executable, *_RESUME))}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]


def _agent(store: str, environment: Mapping[str, str], home: str) -> list[str]:
    """A launchd agent. `AbandonProcessGroup`: the supervisors that it starts outlive it."""
    command = [sys.executable, *_RESUME]
    variables = {"PATH": _path(environment)}
    if _is_secret(store):
        command = ["/bin/sh", "-c", f'set -a; . "$HOME/{_FILE}"; exec "$0" "$@"', *command]
    else:
        variables["RELIGHT_STORE"] = store
    content: dict[str, Any] = {
        "Label": _LABEL,
        "ProgramArguments": command,
        "EnvironmentVariables": variables,
        "RunAtLoad": True,
        "AbandonProcessGroup": True,
        "StandardErrorPath": f"{home}/Library/Logs/relight.log",
    }
    path = f"~/Library/LaunchAgents/{_LABEL}.plist"
    first, *rest = plistlib.dumps(content, sort_keys=False).decode().splitlines()
    return [first, f"<!-- save this as {path}, then: launchctl bootstrap gui/$(id -u) {path} -->", *rest]


def _is_secret(store: str) -> bool:
    """Whether the address has a password, which belongs into a file of mode 0600."""
    return safe_address(store) != store or "@" in store.partition("://")[2]


def _word(word: str) -> str:
    """A word as systemd reads it: quoted if need be, with `%` doubled."""
    word = word.replace("%", "%%")
    if not any(one in word for one in " \t\"'\\"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
