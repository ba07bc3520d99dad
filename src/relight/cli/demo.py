"""`relight demo`: sixty seconds in which an agent is killed and goes on; exit 1 where one of its claims was false."""

from __future__ import annotations

import secrets
from typing import Any, Final

import click
import msgspec

from relight.cli.door import Door, pass_door
from relight.cli.look import Span
from relight.cli.verb import json_flag, verb
from relight.demo import storm as storms
from relight.demo import story
from relight.demo.claims import Claims
from relight.demo.screen import Screen, single_keys
from relight.demo.stage import Stage, ending_cleanly

SEEDS: Final = 10_000
INTERRUPTED: Final = 130


@verb(
    "demo",
    ("demo", "an agent is killed, and goes on where it stopped"),
    ("demo --storm --seed 7", "it is killed again and again"),
)
@click.option("--fast", is_flag=True, help="No pauses: a few seconds.")
@click.option("--storm", is_flag=True, help="Kill at random moments until it is done anyway.")
@click.option("--seed", type=click.IntRange(min=0), help="Of the storm: the same seed, the same moments.")
@click.option("--keep", is_flag=True, help="Keep the store and the files, and say where.")
@json_flag
@pass_door
def demo(door: Door, *, fast: bool, storm: bool, seed: int | None, keep: bool, as_json: bool) -> int:
    """Sixty seconds: no key, no network, nothing left behind.

    Every number is counted in that run, outside the agent; the exit code is 1 where a claim did not hold.
    """
    if seed is not None and not storm:
        raise click.UsageError("--seed belongs to --storm")
    console = door.console
    screen = Screen(console.out, fast=fast, silent=as_json)
    try:
        with ending_cleanly(), single_keys(), Stage(keep=keep) as stage:
            numbers, claims = _play(stage, screen, storm=storm, seed=seed)
    except KeyboardInterrupt:
        console.say("stopped; the demo's processes are ended")
        return INTERRUPTED
    if as_json:
        console.document(_document(numbers, claims, kept_in=str(stage.root) if keep else None))
    else:
        _end(screen, stage)
    for claim in claims.broken:
        console.say(Span("error:", "bad"), f" a claim of the demo did not hold: {claim}")
    return 1 if claims.broken else 0


def _play(stage: Stage, screen: Screen, *, storm: bool, seed: int | None) -> tuple[dict[str, Any], Claims]:
    if not storm:
        story.opening(stage, screen)
        return story.tell(stage, screen)
    seed = secrets.randbelow(SEEDS) if seed is None else seed
    storms.opening(stage, screen, seed)
    return storms.brew(stage, screen, seed)


def _document(numbers: dict[str, Any], claims: Claims, *, kept_in: str | None) -> dict[str, Any]:
    return {"ok": not claims.broken, **numbers, "claims": msgspec.to_builtins(claims.made), "kept_in": kept_in}


def _end(screen: Screen, stage: Stage) -> None:
    if stage.keep:
        screen.put_whole("kept   ", Span(str(stage.root), "ref"))
        screen.put_whole("       ", Span(f"RELIGHT_STORE={stage.store} relight list", "ref"))
    for word, command, what in (
        ("next", "relight run -- python my_agent.py", "your own agent, same promise"),
        ("", "relight list", "what runs, and what needs you"),
        ("", "relight help", "everything else"),
    ):
        screen.put(f"{word:<7}", Span(f"{command:<36}", "ref"), what)
