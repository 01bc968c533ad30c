"""Accuracy against levels as an inline SVG in the page's colours; a point under the pointer names its row."""

from __future__ import annotations

from html import escape
from typing import cast

from cgf.report.red import reasons
from cgf.report.tables import EVALUATIONS, PLAIN, engine_name, is_number, percent, samples, under_ckks
from cgf.stats.intervals import wilson
from cgf.types import Json

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 320, 56, 44, 16, 20
Point = tuple[int, float, float, float, str, str]  # levels, accuracy, its interval's ends, style, text


def points(results: list[Json]) -> list[Point]:
    """A point a result that states levels and accuracy; the interval is Wilson's of 95 % over its samples."""
    drawn = []
    for row in results:
        figures = [row.get(key) for key in ("accuracy", "levels", "samples")]
        if row.get("kind") not in EVALUATIONS or not all(map(is_number, figures)):
            continue
        accuracy, levels, count = map(float, cast(list[float], figures))
        if count < 1 or not 0 <= accuracy <= 1:
            continue
        low, high = wilson(round(accuracy * count), int(count))
        style = "clear" if row["kind"] == PLAIN else "ckks" if under_ckks(row) else "sim"
        style += " red" if (red := reasons(row)) else ""
        where = f"{row.get('model', '?')} on {row.get('task', '?')}"
        text = (
            f"{row.get('softmax', '?')}, {row.get('approx', '?')}, {engine_name(row)}, {where}: "
            f"{percent(accuracy)} [{percent(low)}, {percent(high)}], {int(levels)} levels, {samples(row)}"
            + (", red" if red else "")
        )
        drawn.append((int(levels), accuracy, low, high, style, text))
    return drawn


def figure(results: list[Json]) -> str | None:
    """The drawing; None where no result has levels."""
    drawn = points(results)
    if not drawn:
        return None
    least, most = min(p[0] for p in drawn) - 1, max(p[0] for p in drawn) + 1
    low = max(0.0, min(p[2] for p in drawn) - 0.02)
    high = min(1.0, max(p[3] for p in drawn) + 0.02)

    def x(levels: float) -> float:
        return LEFT + (levels - least) / (most - least) * (WIDTH - LEFT - RIGHT)

    def y(accuracy: float) -> float:
        return HEIGHT - BOTTOM - (accuracy - low) / max(1e-9, high - low) * (HEIGHT - BOTTOM - TOP)

    parts = []
    for levels in range(least, most + 1):
        parts.append(f'<text x="{x(levels):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{levels}</text>')
    for step in range(5):
        at = low + step / 4 * (high - low)
        parts.append(f'<path class="grid" d="M{LEFT} {y(at):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{100 * at:.1f}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">levels</text>')
    for at, (levels, accuracy, start, end, style, text) in enumerate(drawn):
        place = x(levels) + 5 * (at % 5 - 2)  # points of the same levels stand side by side
        parts.append(
            f'<g class="point {style}"><title>{escape(text)}</title>'
            f'<path d="M{place:.1f} {y(start):.1f}V{y(end):.1f}"/>'
            f"{_mark(place, y(accuracy), style)}</g>"
        )
    label = "Accuracy in per cent against levels, a point a result"
    return f'<svg class="levels" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _mark(x: float, y: float, style: str) -> str:
    """A circle; a cross for a red result, which is told by its shape too, as in the README's figure."""
    if style.endswith(" red"):
        return f'<path class="cross" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
