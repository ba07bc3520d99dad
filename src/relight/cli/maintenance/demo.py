"""`relight demo`: sixty seconds in which an agent is killed and continues; exit code 1 if a claim was false."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Span
from relight.demo import storm as storms
from relight.demo import story
from relight.demo import web as pages
from relight.demo.claims import Claims
from relight.demo.screen import Screen, can_read_keys, single_keys
from relight.demo.stage import Stage, ending_cleanly
from relight.errors import MissingExtra

SEEDS: Final = 10_000
INTERRUPTED: Final = 130


@verb(
    "demo",
    ("demo", "an agent is killed and continues where it stopped"),
    ("demo --storm --seed 7", "it is killed again and again"),
)
@click.option("--fast", is_flag=True, help="No pauses: a few seconds.")
@click.option("--storm", is_flag=True, help="Kill at random moments until it is done.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the storm's delays.")
@click.option("--keep", is_flag=True, help="Keep the store and the files, and print where.")
@click.option("--web", is_flag=True, help="Serve the dashboard of the run until a key is pressed.")
@json_flag
@pass_context
def demo(cli: CliContext, *, fast: bool, storm: bool, seed: int | None, keep: bool, web: bool, as_json: bool) -> int:
    """Play the demo: an agent is killed and continues. Sixty seconds, no key, no network, nothing left behind.

    Every number is counted in that run, outside the agent; the exit code is 1 if a claim does not hold.
    """
    if seed is not None and not storm:
        raise click.UsageError("--seed belongs to --storm")
    if web and not pages.can_serve():
        raise MissingExtra("server", needed_for="relight demo --web")
    console = cli.console
    screen = Screen(console.out, fast=fast, silent=as_json)
    try:
        with ending_cleanly(), single_keys(), Stage(keep=keep) as stage, _served(stage, screen, web) as server:
            numbers, claims = _play(stage, screen, storm=storm, seed=seed)
            if not as_json:
                _end(screen, stage)
            _show(stage, screen, server)
    except KeyboardInterrupt:
        console.say("stopped; the demo's processes are ended")
        return INTERRUPTED
    if as_json:
        console.document(_document(numbers, claims, kept_in=str(stage.root) if keep else None))
    for claim in claims.broken:
        console.say(Span("error:", "bad"), f" a claim of the demo did not hold: {claim}")
    return 1 if claims.broken else 0


def _play(stage: Stage, screen: Screen, *, storm: bool, seed: int | None) -> tuple[dict[str, Any], Claims]:
    if not storm:
        story.opening(stage, screen)
        return story.play(stage, screen)
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    storms.opening(stage, screen, seed)
    return storms.run_storm(stage, screen, seed)


def _document(numbers: dict[str, Any], claims: Claims, *, kept_in: str | None) -> dict[str, Any]:
    return {"ok": not claims.broken, **numbers, "claims": msgspec.to_builtins(claims.made), "kept_in": kept_in}


@contextmanager
def _served(stage: Stage, screen: Screen, web: bool) -> Iterator[subprocess.Popen[bytes] | None]:
    """With --web the server runs from the beginning, so that the run can be watched."""
    if not web:
        yield None
        return
    with pages.serving(stage, screen) as server:
        yield server


def _show(stage: Stage, screen: Screen, server: subprocess.Popen[bytes] | None) -> None:
    """Serve the page of the run until a key is pressed (--web), or offer it if there is a keyboard."""
    if server is not None:
        screen.put("the page of this run stays until you press a key")
        pages.wait_for_the_end(server)
    elif screen.paced and pages.can_serve() and can_read_keys():
        pages.forget_keys()
        screen.put(Span("w", "bold"), " shows the page of this run in the browser; any other key ends the demo")
        if pages.is_wanted():
            with pages.serving(stage, screen, f"/sessions/{story.RUN}") as opened:
                screen.put("any key ends it")
                pages.wait_for_the_end(opened)


def _end(screen: Screen, stage: Stage) -> None:
    if stage.keep:
        screen.put_whole("kept   ", Span(str(stage.root), "ref"))
        screen.put_whole("       ", Span(f"RELIGHT_STORE={stage.store} relight serve", "ref"))
    for word, command, what in (
        ("next", "relight run -- python my_agent.py", "your own agent, same promise"),
        ("", "relight list", "what runs, and what needs you"),
        ("", "relight serve", "the same in the browser"),
        ("", "relight demo --web", "this run, in the browser"),
        ("", "relight help", "everything else"),
    ):
        screen.put(f"{word:<7}", Span(f"{command:<36}", "ref"), what)
