"""`relight worker`: run sessions from queues, or list the workers."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Part, Span
from relight.cli.render.table import Column, table
from relight.errors import UsageError
from relight.text.format import age, short_id

if TYPE_CHECKING:
    from relight.fleet.worker import WorkerOptions, WorkLoop
    from relight.library.facade import Relight

_CONCURRENCY: Final = 4


@verb(
    "worker",
    ("worker --concurrency 4 --queue nightly", "run up to four sessions of this queue at once"),
    ("worker --queue big --labels gpu,eu", "also sessions that require a gpu"),
    ("worker --list", "all workers and their state"),
)
@click.option("--concurrency", type=click.IntRange(1, 1000), default=_CONCURRENCY, show_default=True, metavar="N")
@click.option("--queue", "queues", multiple=True, metavar="Q", help="A queue to serve; may be repeated.")
@click.option("--labels", default="", metavar="L,...", help="Labels of this worker, which sessions may require.")
@click.option("--name", metavar="N", help="Name of the worker (default: host and pid).")
@click.option("--lease", type=click.FloatRange(min=0.5), metavar="SECONDS", help="As RELIGHT_LEASE_SECONDS.")
@click.option("--sweep", type=click.FloatRange(min=0.1), metavar="SECONDS", help="As RELIGHT_SWEEP_SECONDS.")
@click.option("--engine", type=click.Choice(["embedded", "procrastinate"]), help="As RELIGHT_ENGINE.")
@click.option("--until-empty", is_flag=True, help="Exit when its queues are empty and nothing runs.")
@click.option("--no-retention", is_flag=True, help="Do not remove finished sessions once a day.")
@click.option("--list", "listing", is_flag=True, help="Only list the workers.")
@json_flag
@pass_context
def worker(
    cli: CliContext,
    concurrency: int,
    queues: tuple[str, ...],
    labels: str,
    name: str | None,
    lease: float | None,
    sweep: float | None,
    engine: str | None,
    until_empty: bool,
    no_retention: bool,
    listing: bool,
    as_json: bool,
) -> int:
    """Take queued sessions and run each in a process of its own. SIGTERM drains: running sessions are requeued.

    A second SIGTERM does so immediately. If the worker is killed, others take over after lease and sweep interval.
    """
    if listing:
        with cli.opened() as rl:
            return _list(cli, rl, as_json=as_json)
    if lease is not None:
        # In the environment, because the processes that the worker starts must use the same lease.
        os.environ["RELIGHT_LEASE_SECONDS"] = f"{lease:g}"
    from relight import wiring
    from relight.fleet.worker import SWEEP_SECONDS, WorkerOptions
    from relight.journal.queues.order import checked_label, checked_queue
    from relight.sessions.opening import lease_seconds_of

    options = WorkerOptions(
        name=checked_label(name) if name else _own_name(),
        queues=tuple(dict.fromkeys(map(checked_queue, queues or ("default",)))),
        labels=tuple(sorted({checked_label(one) for one in labels.split(",") if one})),
        concurrency=concurrency,
        lease_seconds=lease_seconds_of(os.environ),
        sweep_seconds=sweep or _sweep_seconds(SWEEP_SECONDS),
        retention=not no_retention,
    )
    with cli.opened(create=True) as rl:
        loop = wiring.work_loop(rl, options, _EventPrinter(cli, as_json=as_json), engine=engine)
        _print_start(cli, options)
        return _work(loop, until_empty=until_empty)


def _work(loop: WorkLoop, *, until_empty: bool) -> int:
    # Only a flag is set: the loop drains in its own thread, and a second signal makes it drain at once.
    def stop(number: int, frame: FrameType | None) -> None:
        loop.stop()

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        loop.run(until_empty=until_empty)
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return 0


def _own_name() -> str:
    host = "".join(one if one.isascii() and one.isalnum() else "-" for one in os.uname().nodename).strip("-") or "host"
    return f"{host[:60]}-{os.getpid()}"


def _sweep_seconds(default: float) -> float:
    asked = os.environ.get("RELIGHT_SWEEP_SECONDS")
    try:
        seconds = float(asked) if asked else default
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise UsageError(f"RELIGHT_SWEEP_SECONDS is a number of seconds from 0.1 to 3600, not {asked!r}")
    return seconds


class _EventPrinter:
    """Prints one line for each event of the worker: text, or JSON."""

    def __init__(self, cli: CliContext, *, as_json: bool) -> None:
        self._cli = cli
        self._as_json = as_json

    def __call__(self, what: str, fields: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        if self._as_json:
            self._cli.console.document({"at": now.isoformat(), "what": what, **fields}, indent=None)
        else:
            text = " ".join(f"{key}={value}" for key, value in fields.items() if value != "")
            self._cli.console.say(f"{now:%H:%M:%S} ", Span(what, "bold"), f" {text}")
        self._cli.console.flush()


def _print_start(cli: CliContext, options: WorkerOptions) -> None:
    have = f", labels {','.join(options.labels)}" if options.labels else ""
    cli.console.say(
        "relight: worker ",
        Span(options.name, "bold"),
        f" serves {', '.join(options.queues)}{have}; {options.concurrency} at once, lease {options.lease_seconds:g} s",
    )
    cli.console.flush()


def _list(cli: CliContext, rl: Relight, *, as_json: bool) -> int:
    found = rl.queues.workers()
    if as_json:
        documents = [
            {
                **msgspec.to_builtins(msgspec.structs.asdict(one.worker)),
                "silent_seconds": min(one.silent_seconds, 1e9),
                "alive": one.alive,
            }
            for one in found
        ]
        cli.console.document(documents)
        return 0
    if not found:
        cli.console.say("no workers; start one: relight worker --queue default")
        return 0
    columns = [Column("worker", least=12), Column("state"), Column("queues", least=8), Column("labels", drop=1)]
    columns += [Column("running", right=True), Column("seen", right=True), Column("sessions", least=8, drop=0)]
    rows: list[list[Part]] = []
    for one in found:
        w = one.worker
        state = Span("draining", "warn") if w.draining else Span("alive", "ok") if one.alive else Span("silent", "bad")
        seen = age(one.silent_seconds) if one.silent_seconds < 1e9 else "before boot"
        ids = " ".join(map(short_id, w.running))
        rows.append(
            [w.name, state, ",".join(w.queues), ",".join(w.labels), f"{len(w.running)}/{w.concurrency}", seen, ids]
        )
    cli.console.write(table(columns, rows, cli.console.out), tabs=True)
    return 0
