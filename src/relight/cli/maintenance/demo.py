"""`relight demo`: sixty seconds in which an agent is killed and continues; exit code 1 if a claim was false."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

import relight
from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.maintenance.serve import check_extra
from relight.cli.render.style import Span
from relight.demo import storm as storms
from relight.demo import story
from relight.demo.screen import Screen, can_read_keys, single_keys
from relight.demo.stage import Stage, ending_cleanly
from relight.errors import AgentFailed

SEEDS: Final = 10_000
INTERRUPTED: Final = 130
THINK_SECONDS: Final = 0.6
STORM_SECONDS: Final = 0.03
_END_SECONDS: Final = 10.0


@verb(
    "demo",
    ("demo", "an agent is killed and continues where it stopped"),
    ("demo --storm --seed 7", "it is killed again and again"),
)
@click.option("--fast", is_flag=True, help="No pauses: a few seconds.")
@click.option("--storm", is_flag=True, help="Kill at random moments until it is done.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the storm's delays.")
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
    if web:
        check_extra(needed_for="relight demo --web")
    console = cli.console
    screen = Screen(console.out, fast=fast, silent=as_json)
    think_seconds = STORM_SECONDS if storm else THINK_SECONDS if screen.paced else 0.0
    stage = Stage(keep=keep, think_seconds=think_seconds, transit_seconds=STORM_SECONDS if storm else 0.0)
    try:
        with ending_cleanly(), single_keys(), stage, _served(stage, screen, web), relight.open(stage.store) as rl:
            seed = secrets.randbelow(SEEDS) if seed is None else seed
            _opening(stage, screen, seed if storm else None)
            run = storms.play(stage, screen, rl, seed) if storm else story.play(stage, screen, rl)
            _end(stage, screen)
    except KeyboardInterrupt:
        console.say("stopped; the demo's processes are ended")
        return INTERRUPTED
    broken = [claim for claim in run.claims if not claim["kept"]]
    if as_json:
        kept_in = str(stage.root) if keep else None
        console.document({"ok": not broken, **run.numbers, "claims": run.claims, "kept_in": kept_in})
    for claim in broken:
        text = f"{claim['text']}: expected {claim['expected']}, counted {claim['counted']}"
        console.say(Span("error:", "bad"), f" a claim of the demo did not hold: {text}")
    return 1 if broken else 0


@contextmanager
def _served(stage: Stage, screen: Screen, web: bool) -> Iterator[None]:
    """With --web: a server over the demo's store from the beginning, until a key is pressed after the end."""
    if not web:
        yield
        return
    command = [sys.executable, "-P", "-m", "relight.cli", "serve", "--port", "0", "--no-sweep"]
    environment = {**os.environ, "RELIGHT_STORE": str(stage.store), "RELIGHT_HINTS": "0"}
    server = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdout is not None
    try:
        link = server.stdout.readline().decode().strip()
        if not link:
            raise AgentFailed("the server did not start", hints=["see why: relight serve --port 0"])
        screen.put("page   ", Span(link, "ref"), whole=True)
        yield
        # The first link was good for a minute, and once; this one is for who looks now.
        again = subprocess.run([*command[:4], "serve", "--link"], env=environment, capture_output=True, check=False)
        if again.returncode == 0:
            screen.put("page   ", Span(again.stdout.decode().strip(), "ref"), whole=True)
        screen.put("the page of this run stays until you press a key")
        if can_read_keys():
            os.read(sys.stdin.fileno(), 16)
        else:
            server.wait()
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def _opening(stage: Stage, screen: Screen, seed: int | None) -> None:
    if seed is None:
        screen.put(Span("relight demo", "bold"), ": an agent fixes a bug, and we kill it.   no key, no network")
        where = f"kept in {stage.root}" if stage.keep else "in a temporary directory (removed at the end)"
        screen.put(Span(f"store and files: {where}", "dim"))
    else:
        screen.put(Span("relight demo --storm", "bold"), ": an agent fixes a bug, and we kill it, and again.")
        screen.put(Span(f"the same moments once more: relight demo --storm --seed {seed}", "dim"))
    if screen.paced and can_read_keys():
        screen.put(Span("any key skips a pause", "dim"))


def _end(stage: Stage, screen: Screen) -> None:
    if stage.keep:
        screen.put("kept   ", Span(str(stage.root), "ref"), whole=True)
        screen.put("       ", Span(f"RELIGHT_STORE={stage.store} relight serve", "ref"), whole=True)
    for word, command, what in (
        ("next", "relight run -- python my_agent.py", "your own agent, same promise"),
        ("", "relight list", "what runs, and what needs you"),
        ("", "relight serve", "the same in the browser"),
        ("", "relight demo --web", "this run, in the browser"),
        ("", "relight help", "everything else"),
    ):
        screen.put(f"{word:<7}", Span(f"{command:<36}", "ref"), what)
