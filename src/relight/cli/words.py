"""Words and numbers as people read them: statuses with their glyphs, ages, durations, money, sizes, places."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from relight.cli.look import Role, Span
from relight.model.info import SessionInfo
from relight.model.status import Status

GLYPHS: Final[dict[Status, tuple[str, Role]]] = {
    "queued": ("…", "dim"),
    "spawning": ("~", "dim"),
    "working": ("●", "ref"),
    "waiting": ("?", "waiting"),
    "completed": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "halted": ("=", "warn"),
    "terminated": ("†", "warn"),
    "archived": ("-", "dim"),
}
_ASCII_QUEUED: Final = "."


def status_word(status: Status, *, mark: str = "", unicode: bool = True) -> Span:
    """Glyph and word; `mark` is an adjective such as `!` for quiet."""
    glyph, role = GLYPHS[status]
    glyph = _ASCII_QUEUED if glyph == "…" and not unicode else glyph
    return Span(f"{glyph} {status}{' ' + mark if mark else ''}", role)


def seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    """None stays None; a clock that went back is no negative age."""
    return None if earlier is None else max(0.0, (later - earlier).total_seconds())


def age(seconds: float | None) -> str:
    """Short, for a column: 0.3s, 38s, 4m, 3h, 2d."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds:.1f}s"
    for bound, unit, size in ((100, "s", 1), (3600, "m", 60), (172_800, "h", 3600)):
        if seconds < bound:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def lasting(seconds: float) -> str:
    """In a sentence: 9 s, 4 min, 2 h 51 min, 3 days."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{seconds / 86_400:.0f} days"


def money(cost: float | None) -> str:
    """`-` where nobody said what it cost: unknown is not free."""
    return "-" if cost is None else f"${cost:,.2f}"


def size(size_bytes: int) -> str:
    """1.2 GB, 38 MB, 4 kB, 812 B."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable: the last unit holds everything")


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """1.3 M, 184 k, 812."""
    if number >= 1_000_000:
        return f"{number / 1e6:.1f} M"
    return f"{number / 1000:.0f} k" if number >= 1000 else str(number)


def place(directory: str | None) -> str:
    """A directory with the home shortened to ~."""
    if not directory:
        return ""
    home = str(Path.home()) if Path.home() != Path("/") else ""
    return "~" + directory[len(home) :] if home and (directory + "/").startswith(home + "/") else directory


def clock(moment: datetime) -> str:
    """Local time of day."""
    return f"{moment.astimezone():%H:%M:%S}"


def moment(at: datetime, now: datetime) -> str:
    """Local time, with the date where it was another day."""
    local = at.astimezone()
    return f"{local:%H:%M}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"


def where(info: SessionInfo) -> str | None:
    """The directory a session works in, as far as it is known."""
    return info.directory or next(iter(info.workspace.values()), None)


def short_id(session: str, others: list[str] | None = None) -> str:
    """The shortest prefix that none of the others begins with; at least 6 characters."""
    for length in range(6, len(session)):
        if not any(one != session and one.startswith(session[:length]) for one in others or ()):
            return session[:length]
    return session
