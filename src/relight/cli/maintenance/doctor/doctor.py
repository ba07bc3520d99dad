"""`relight doctor`: check store, settings and machine; one line per finding, with a remedy if something is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from relight import wiring
from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.maintenance.doctor.additions import check_additions
from relight.cli.maintenance.doctor.files import Finding, check_blobs, check_workspaces, unless_down
from relight.cli.maintenance.doctor.prices import print_prices
from relight.cli.maintenance.doctor.server import check_engine, check_schema, check_settings, check_skew, not_current
from relight.cli.maintenance.doctor.service import service_file
from relight.cli.render.style import Line, Style
from relight.cli.render.table import facts
from relight.errors import StoreError, UsageError
from relight.system import durable
from relight.system.machine import SystemClock
from relight.system.platform import PROC, this_platform
from relight.system.process_table import process_table
from relight.text.facts import Fact
from relight.text.format import DURABILITY, count, display_path, policy_text, size
from relight.values.policy import Retention

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.values.store import StoreInfo

_LOW_BYTES: Final = 200_000_000
_AHEAD_SECONDS: Final = 60


@verb("doctor", ("doctor", "one screen"), ("doctor --json", "for a monitor"))
@click.option(
    "--service", "--systemd", is_flag=True, help="Print a service that resumes running sessions after a reboot."
)
@click.option("--prices", is_flag=True, help="Print the price table and its sources.")
@json_flag
@pass_context
def doctor(cli: CliContext, service: bool, prices: bool, as_json: bool) -> int:
    """Check the store, the settings and this machine. Durability, size, captured files, retention, clock, workers."""
    console = cli.console
    if service and (prices or as_json):
        other = "--prices" if prices else "--json"
        raise UsageError(f"--service cannot be combined with {other}", hints=["relight doctor --service"])
    if service:
        with cli.opened(may_be_missing=True) as rl:
            lines = service_file(rl.store.url, this_platform(), os.environ, os.path.expanduser("~"))
            console.write([[line] for line in lines])
        return 0
    if prices:
        return print_prices(cli, as_json=as_json)
    findings = check_settings() + check_additions()
    code = 0
    try:
        statuses = wiring.schema_statuses(cli.store)
        behind = [one for one in statuses if one.found is not None and not one.is_current]
        if behind:  # opening the store would migrate it, and a check must not write
            findings += [not_current(one) for one in behind]
            return _print(cli, findings + _system(), as_json=as_json)
        with cli.opened(may_be_missing=True) as rl:
            findings += _store(rl, cli)
            findings += check_engine(rl, statuses)
            findings += _clock(rl, cli.now()) + check_skew(rl, SystemClock())
            findings += check_blobs(rl) + check_workspaces(rl) + _adoptable(rl)
    except StoreError as error:
        cure = error.hints[0] if error.hints else ""
        text = "; ".join((error.message, *error.evidence[:1]))
        findings, code = [*findings, Finding("store", text, False, cure)], error.exit_code
    _print(cli, findings + _system(), as_json=as_json)
    return code


def _print(cli: CliContext, findings: list[Finding], *, as_json: bool) -> int:
    console = cli.console
    if as_json:
        console.document([finding._asdict() for finding in findings])
    elif console.out.terminal:
        console.write(lines_of(findings, console.out))
    else:
        for one in findings:
            console.row(("ok" if one.fine else "!", one.what, one.text, one.cure))
    return 0


def lines_of(findings: list[Finding], style: Style) -> list[Line]:
    """Mark, subject and finding, with the remedy below."""
    entries = []
    for one in findings:
        entries.append(Fact(f"{'✓' if one.fine else '!'} {one.what}", one.text, "" if one.fine else "warn"))
        if one.cure:
            entries.append(Fact("", f"fix: {one.cure}"))
    return facts(entries, style, indent=0)


def _store(rl: Relight, cli: CliContext) -> list[Finding]:
    store, info = rl.store, rl.store.info
    path = _path_of(cli)
    if store.url == "memory:" and (address := _address(cli)) != "memory:":
        shown = display_path(str(path)) if path is not None else wiring.schema_statuses(address)[0].place
        return [Finding("store", f"{shown}: does not exist yet; the first session creates it, or: relight migrate")]
    counts = rl.sessions.counts()
    findings = [
        Finding(
            "store",
            display_path(str(path)) if path is not None else info.location,
        ),
        _durable(info, durable.describe() if path is not None else ""),
        Finding("journal", f"{count(sum(counts.values()), 'session')}, {size(store.size_bytes())}"),
        unless_down("files", lambda: _captured(rl)),
        unless_down("retention", lambda: _retention(rl)),
    ]
    findings[2:2] = check_schema(info)
    if info.read_only:
        findings.append(Finding("writable", "no: read-only", False, "check the permissions of the directory"))
    if path is not None:
        findings.append(_disk(path))
    return findings


def _durable(store: StoreInfo, synced_by: str) -> Finding:
    """Durability in words, and how this machine syncs a file; a store on a server reports its own reason and remedy."""
    reason, cures = store.durability_reason, store.durability_cures or ("set RELIGHT_STORE to a file",)
    text = f"{store.durability}: {reason}" if reason else DURABILITY.get(store.durability, store.durability)
    if synced_by:
        text += f"; synced by {synced_by}"
    fine = store.durability == "power-loss"
    return Finding("durable", text, fine=fine, cure="" if fine else "; ".join(cures))


def _captured(rl: Relight) -> Finding:
    taken = rl.files.size_bytes()
    kept, is_remote = rl.files.location()
    where = f" in {kept if is_remote else display_path(kept)}" if taken else ""
    return Finding("files", f"{size(taken)} of captured files{where}" if taken else "none captured")


def _address(cli: CliContext) -> str:
    return cli.store or os.environ.get("RELIGHT_STORE") or wiring.default_path()


def _path_of(cli: CliContext) -> Path | None:
    """The database file, if the store is one."""
    address = _address(cli)
    is_file = "://" not in address or address.startswith("sqlite:")
    return wiring.sqlite_path(address).absolute() if is_file and address != "memory:" else None


def _retention(rl: Relight) -> Finding:
    """The policy, and how much it (or one of 7 days) would remove now."""
    policy = rl.admin.retention()
    over = rl.admin.sweep(dry_run=True)
    freed = f"{count(len(over), 'session')}, {size(over.size_bytes + over.file_bytes)}"
    if policy.finished_days is not None:
        due = f"; due now: {freed}" if len(over) else ""
        return Finding("retention", f"{policy_text(policy)}{due}")
    kept = sum(rl.sessions.counts().get(status, 0) for status in Retention().statuses)
    would = f"; of {count(kept, 'finished session')} a policy of 7 days would free {freed}" if kept else ""
    cure = "relight sweep --dry-run, or every day: relight sweep --set 7d" if len(over) else ""
    return Finding("retention", f"{policy_text(policy)}{would}", cure=cure)


def _disk(path: Path) -> Finding:
    directory = next((one for one in path.parents if one.exists()), Path("/"))
    free = shutil.disk_usage(directory).free
    return Finding("disk", f"{size(free)} free", free > _LOW_BYTES, "" if free > _LOW_BYTES else "free some space")


def _clock(rl: Relight, now: datetime) -> list[Finding]:
    """Compare with the newest step. Leases do not use the wall clock, ages and retention do."""
    newest = max((info.updated_at for info in rl.sessions.list(limit=50)), default=None)
    ahead = (newest - now).total_seconds() if newest is not None else 0.0
    if ahead > _AHEAD_SECONDS:
        return [
            Finding("clock", f"a step was saved {ahead:.0f} s in the future", False, "set the clock of this machine")
        ]
    return [Finding("clock", f"{now.astimezone():%Y-%m-%d %H:%M:%S %Z}; leases do not depend on it")]


def _adoptable(rl: Relight) -> list[Finding]:
    """Native sessions on this machine that could be adopted."""
    numbers = Counter(one.agent for one in rl.runs.adoptable())
    found = " and ".join(f"{count(number, 'session')} of {agent}" for agent, number in sorted(numbers.items()))
    where = "relight adopt, in the directory it was begun in"
    return [Finding("adopt", f"{found} on this machine can be adopted: {where}")] if found else []


def _system() -> list[Finding]:
    evidence = process_table().facts(os.getpid()) is not None
    return [
        Finding("python", f"{platform.python_version()} ({display_path(sys.executable)})"),
        Finding(
            "processes",
            "a dead owner is noticed at once" if evidence else "a dead owner is noticed when its lease ends",
            evidence,
            "" if evidence else f"mount {PROC}" if this_platform().is_linux else "pip install psutil",
        ),
    ]
