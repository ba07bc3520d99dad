"""The command line: those flags of Claude Code that matter to whoever starts it, unknown ones refused."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = "2.1.325"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for."""

    prompt: str | None
    print: bool
    session_id: str | None
    resume: str | None
    fork: bool
    settings: str | None
    output: str
    max_turns: int | None
    model: str


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; ends the process with 1 where it cannot be understood, as the real one does."""
    parser = argparse.ArgumentParser(prog="claude", exit_on_error=False)
    parser.add_argument("-p", "--print", action="store_true")
    parser.add_argument("-r", "--resume")
    parser.add_argument("-v", "--version", action="version", version=f"{VERSION} (Claude Code)")
    parser.add_argument("--session-id")
    parser.add_argument("--fork-session", action="store_true")
    parser.add_argument("--settings")
    parser.add_argument("--output-format", choices=("text", "json", "stream-json"), default="text")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--dangerously-skip-permissions", action="store_true")
    parser.add_argument("--permission-mode")
    parser.add_argument("--allowedTools", "--allowed-tools", nargs="+")
    parser.add_argument("--append-system-prompt")
    parser.add_argument("--model", default="claude-opus-5-5")
    parser.add_argument("prompt", nargs="?")
    try:
        given, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise SystemExit(f"error: {error}") from None
    if unknown:
        raise SystemExit(f"error: unknown option '{unknown[0]}'")
    if given.output_format == "stream-json" and given.print and not given.verbose:
        raise SystemExit("Error: When using --print, --output-format=stream-json requires --verbose")
    return Options(
        prompt=given.prompt,
        print=given.print,
        session_id=given.session_id,
        resume=given.resume,
        fork=given.fork_session,
        settings=given.settings,
        output=given.output_format,
        max_turns=given.max_turns,
        model=given.model,
    )


def hooks_of(options: Options, config: Path, directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The hooks of all settings, by event: the user's, the project's, those of the command line."""
    sources = [config / "settings.json", *(directory / ".claude" / name for name in ("settings.json",))]
    texts = [path.read_text(encoding="utf-8") for path in sources if path.is_file()]
    if options.settings is not None:
        inline = options.settings.lstrip().startswith("{")
        texts.append(options.settings if inline else Path(options.settings).read_text(encoding="utf-8"))
    found: dict[str, list[dict[str, Any]]] = {}
    for text in texts:
        for event, groups in (json.loads(text).get("hooks") or {}).items():
            found.setdefault(event, []).extend(groups)
    return found
