"""A plot of save time over the run, as SVG written by hand: two lines, two axes, no library."""

from __future__ import annotations

import statistics

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 360, 60, 40, 44


def save_times(ours_ms: list[float], raw_ms: list[float], *, buckets: int = 80) -> str:
    """Medians of equal stretches of the run; the title states the answer."""
    lines = {"relight": _medians(ours_ms, buckets), "raw INSERT": _medians(raw_ms, buckets)}
    top = max(max(values) for values in lines.values()) * 1.25
    ratio = statistics.median(ours_ms) / statistics.median(raw_ms)
    title = f"save time over {len(ours_ms)} saves: relight {ratio:.2f} x a raw INSERT, flat"
    body = [_text(LEFT, 24, title, 15), *_axes(top, len(ours_ms))]
    for (name, values), colour in zip(lines.items(), ("#0550ae", "#7a4d00"), strict=True):
        points = " ".join(f"{_x(i, len(values)):.1f},{_y(value, top):.1f}" for i, value in enumerate(values))
        body.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        body.append(_text(WIDTH - 130, _y(values[-1], top) - 8, name, 13, colour))
    header = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([header, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *body, "</svg>\n"])


def _medians(values: list[float], buckets: int) -> list[float]:
    size = max(1, len(values) // buckets)
    return [statistics.median(values[i : i + size]) for i in range(0, len(values) - size + 1, size)]


def _axes(top: float, saves: int) -> list[str]:
    parts = [f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - 20}" y2="{HEIGHT - BOTTOM}" stroke="#57606a"/>']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(top * share, top)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="#d0d7de"/>')
        parts.append(_text(8, y + 4, f"{top * share:.2f} ms", 12))
        parts.append(_text(LEFT + share * (WIDTH - LEFT - 20) - 14, HEIGHT - 14, f"{saves * share:.0f}", 12))
    return parts


def _x(index: int, count: int) -> float:
    return LEFT + index / max(1, count - 1) * (WIDTH - LEFT - 20)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def _text(x: float, y: float, text: str, size: int, colour: str = "#1b1f24") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}">{text}</text>'


def histogram(seconds: list[float], *, bound: float, buckets: int = 16) -> str:
    """How long takeovers took, and the time by which each was to have happened; the title states the answer."""
    top = max([bound * 1.2, *seconds])
    counts = [0] * buckets
    for one in seconds:
        counts[min(buckets - 1, int(one / top * buckets))] += 1
    most, width = max([1, *counts]), (WIDTH - LEFT - 20) / buckets
    worst = max(seconds, default=0.0)
    body = [_text(LEFT, 24, f"{len(seconds)} takeovers: worst {worst:.1f} s, lease + sweep {bound:g} s", 15)]
    body.append(f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - 20}" y2="{HEIGHT - BOTTOM}" stroke="#57606a"/>')
    for number, count in enumerate(counts):
        x, y = LEFT + number * width, _y(count, most * 1.1)
        height = HEIGHT - BOTTOM - y
        shape = f'x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}"'
        body.append(f'<rect {shape} fill="#0550ae"/>')
        body.append(_text(x, HEIGHT - 14, f"{number * top / buckets:.1f}", 11))
        if count:
            body.append(_text(x + width / 2 - 4, y - 4, str(count), 11))
    limit = LEFT + bound / top * (WIDTH - LEFT - 20)
    body.append(f'<line x1="{limit:.1f}" y1="{TOP}" x2="{limit:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#a40e26"/>')
    body.append(_text(limit + 4, TOP + 12, "lease + sweep", 12, "#a40e26"))
    header = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([header, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *body, "</svg>\n"])
