"""`make bench`: ours beside the raw floor and beside git, in the same run. Ratios printed, written as JSON, and drawn.

    python -m bench [--full] [--only journal|stores|workspaces|server] [--strict]

By default workspaces of 1,000 and 10,000 files, about two minutes in all on two idle cores; --full adds 50,000.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import journal, plot, server, stores, workspaces

SIZES = (1_000, 10_000)
FULL = 50_000
ROUNDS = 9

_TABLE = (
    ("first", "first snapshot, ms"),
    ("changed", "3 files changed, ms"),
    ("nothing", "nothing changed, ms"),
    ("restore_3", "restore of 3 files, ms"),
    ("restore_100", "restore of 100 files, ms"),
    ("store_mb", "first snapshot on disk, MB"),
    ("disk_100", "100 snapshots of 3 files on disk, kB"),
)


def main() -> int:
    """Run, print each figure beside its goal, write build/bench.json and build/save-times.svg."""
    options = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--turns", type=int, default=2000)
    options.add_argument("--full", action="store_true", help=f"also a workspace of {FULL:,} files")
    options.add_argument("--only", choices=("journal", "stores", "workspaces", "server"))
    options.add_argument("--build", type=Path, default=Path("build"))
    options.add_argument("--strict", action="store_true", help="exit 1 where a goal is missed")
    given = options.parse_args()
    given.build.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    document: dict[str, Any] = {"rows": rows}
    if given.only in (None, "journal"):
        found, measured = _journal(given.build, given.turns)
        rows += found
        document |= measured
    if given.only in (None, "stores"):
        found, document["stores"] = _stores()
        rows += found
    if given.only in (None, "workspaces"):
        found, tables = _workspaces(given.build, SIZES + ((FULL,) if given.full else ()))
        rows += found
        document["workspaces"] = tables
    if given.only in (None, "server"):
        found, document["server"] = _server(given.build)
        rows += found
    missed = [row for row in rows if not row["held"]]
    (given.build / "bench.json").write_text(json.dumps(document))
    print(
        f"\n{len(rows) - len(missed)} of {len(rows)} goals held; {given.build}/bench.json, {given.build}/save-times.svg"
    )
    return 1 if missed and given.strict else 0


def _journal(build: Path, turns: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The journal beside raw SQLite."""
    with tempfile.TemporaryDirectory(prefix="relight-bench-", dir=build) as scratch:
        short = journal.growing(_sub(scratch, "short"), 100)
        long = journal.growing(_sub(scratch, "long"), turns)
        many = journal.many_writers(_sub(scratch, "many"))
        tasks = journal.async_sessions(_sub(scratch, "async"))
    start = journal.start_up()
    rows = _rows(short, long, many, tasks, start)
    print("journal, beside raw SQLite with the same durability")
    _print_goals(rows)
    (build / "save-times.svg").write_text(plot.save_times(long["ours_ms"], long["raw_ms"]))
    return rows, {"growing": long, "many": many, "async": tasks, "start": start}


def _stores() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The stores on servers beside raw clients."""
    found = stores.measure()
    print("\nPostgreSQL and Redis, beside raw clients with the same durability")
    for what, rate in found["throughput"].items():
        print(f"      {what + (' process' if what.endswith(' 1') else ' processes'):<44} {rate:>9,.0f} writes/s")
    rows = _goals(stores.goals(found))
    _print_goals(rows)
    return rows, found


def _workspaces(build: Path, sizes: tuple[int, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Workspaces beside git with a private index, on the same disk as the journal."""
    os.environ.setdefault("RELIGHT_BENCH_DIR", str(build.resolve()))
    rows: list[dict[str, Any]] = []
    tables = []
    for files in sizes:
        found = workspaces.measure(files, ROUNDS, shutil.which("git") is not None)
        goals = _goals([(f"{files:,} files: {one[0]}", *one[1:]) for one in workspaces.goals(found)])
        _print_table(found)
        _print_goals(goals)
        rows += goals
        tables.append(found)
    return rows, tables


def _server(build: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Pages and listeners of `relight serve` over a large store."""
    found = server.measure(build)
    print(f"\nserver, {server.SESSIONS:,} sessions and {server.SESSIONS * server.STEPS:,} steps in SQLite")
    for what, one in found["pages"].items():
        print(f"      {what:<44} {one['ms']:>9.1f} ms {one['bytes'] / 1e3:>9.1f} kB")
    rows = _goals(server.goals(found))
    _print_goals(rows)
    return rows, found


def _goals(found: list[tuple[str, float, str, bool]]) -> list[dict[str, Any]]:
    return [{"what": what, "value": value, "goal": _ascii(goal), "held": held} for what, value, goal, held in found]


def _print_table(found: dict[str, Any]) -> None:
    """What was measured, a line a task and a column a contender."""
    walker = "compiled scanner" if found["native"] else "scanner in Python"
    print(f"\nworkspace of {found['files']:,} files of 1-20 kB ({walker})")
    print(f"      {'':<44} {'watched':>10} {'walked':>10} {'git':>10}")
    for key, what in _TABLE:
        values = found[key]
        columns = [values.get("watch", values.get("ours")), values.get("walk"), values.get("git")]
        print(f"      {what:<44} " + " ".join(f"{'' if one is None else f'{one:,.2f}':>10}" for one in columns))
    print(f"      {'opened by another process, and a walk, ms':<44} {'':>10} {found['reopened']['walk']:>10,.2f}")


def _print_goals(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{'ok  ' if row['held'] else 'MISS'}  {row['what']:<52} {row['value']:>9.2f}  goal {row['goal']}")


def _ascii(bound: str) -> str:
    return bound.replace("≤", "<=").replace("≥", ">=")


def _sub(scratch: str, name: str) -> Path:
    path = Path(scratch) / name
    path.mkdir()
    return path


def _rows(short: Any, long: Any, many: Any, tasks: Any, start: Any) -> list[dict[str, Any]]:
    def at_most(what: str, value: float, goal: float) -> dict[str, Any]:
        return {"what": what, "value": value, "goal": f"<= {goal}", "held": value <= goal}

    saves = long["saves"]
    return [
        at_most("save p50 / raw INSERT, N = 100", short["save_ratio_end"], 1.5),
        at_most(f"save p50 / raw INSERT, N = {long['turns']}", long["save_ratio_end"], 1.5),
        at_most(f"save p50, end / start of N = {long['turns']}", long["save_growth"], 1.2),
        at_most("save p99 / raw p99", long["p99_ratio"], 2.0),
        at_most("stored bytes / transcript, after close", long["bytes_ratio"], 0.65),
        at_most(f"load {saves} messages / raw rows with json", long["load_ratio"], 1.3),
        at_most(f"list {saves} checkpoints, ms", long["list_ms"], 10.0),
        {
            "what": f"{many['writers']} writers, saves/s / grouped floor",
            "value": many["ratio"],
            "goal": ">= 0.7",
            "held": many["ratio"] >= 0.7,
        },
        at_most(f"{tasks['sessions']:,} async sessions, save p50 / as many threads", tasks["ratio"], 2.0),
        at_most("import relight, ms over a bare interpreter", start["import_ms"], 100.0),
        at_most("relight list, ms", start["list_ms"], 200.0),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["fleet"]:
        from bench import fleet

        sys.exit(fleet.main(sys.argv[2:]))
    if sys.argv[1:2] == ["scale"]:
        from bench import scale

        sys.exit(scale.main(sys.argv[2:]))
    sys.exit(main())
