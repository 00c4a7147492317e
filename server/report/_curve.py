"""The curve of held-out overall per round, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from server.report.record import RunRecord

__all__ = ["curve_svg"]

LEFT, RIGHT, TOP, BOTTOM = 44, 26, 30, 74
"""Margins in pixels around the plot; the bottom one holds round numbers and target stages."""


@dataclass(frozen=True)
class _Point:
    round: int
    overall: float
    promoted: bool | None
    label: str
    target: str


@dataclass(frozen=True)
class _Frame:
    """Maps rounds and scores to pixels."""

    width: int
    height: int
    rounds: int
    low: float
    high: float

    def x(self, number: float) -> float:
        inset = 18
        span = self.width - LEFT - RIGHT - 2 * inset
        return round(LEFT + inset + span * number / max(self.rounds, 1), 1)

    def y(self, score: float) -> float:
        span = self.height - TOP - BOTTOM
        return round(TOP + span * (self.high - score) / (self.high - self.low), 1)


def curve_svg(record: RunRecord, width: int, height: int) -> str:
    """Draw the curve at a fixed pixel size.

    A solid line joins the adapters that stood (cold start and promoted candidates); a dashed spur leads to a candidate
    that was held. The pill under each round names the stage it practised.

    Args:
        record: the run; must hold at least the cold start's scores.
        width: pixels.
        height: pixels.

    Returns:
        One `<svg>` element coloured by the page's custom properties, or an empty text when nothing was evaluated.
    """
    points = _points(record)
    if not points:
        return ""
    last = max(record.rounds_planned, points[-1].round)
    frame = _Frame(width, height, last, *_range([point.overall for point in points]))
    body = [*_grid(frame), *_lines(frame, points), *_axis(frame, points)]
    body += [mark for point in points for mark in _mark(frame, point)]
    title = f"Held-out overall per round, from {points[0].overall:.3f} to {points[-1].overall:.3f}"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(body)}</svg>'
    )


def _points(record: RunRecord) -> list[_Point]:
    if record.start is None:
        return []
    points = [_Point(0, record.start.overall, None, "cold start", "")]
    for one in record.rounds:
        if one.candidate is not None and one.gate is not None:
            verdict = "promoted" if one.gate.promoted else "held"
            points.append(_Point(one.number, one.candidate.overall, one.gate.promoted, verdict, one.target.value))
    return points


def _range(scores: Sequence[float]) -> tuple[float, float]:
    """Tenths around the scores with a little air, inside [0, 1]."""
    low = max(0.0, math.floor((min(scores) - 0.02) * 10) / 10)
    high = min(1.0, math.ceil((max(scores) + 0.02) * 10) / 10)
    return (low, high) if high - low >= 0.2 else (max(0.0, high - 0.2), max(0.2, high))


def _grid(frame: _Frame) -> list[str]:
    step = 0.05 if frame.high - frame.low <= 0.3 else 0.1
    ticks = [frame.low + step * index for index in range(round((frame.high - frame.low) / step) + 1)]
    return [
        f'<line class="grid" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{frame.y(tick)}" y2="{frame.y(tick)}"/>'
        f'<text class="tick" x="{LEFT - 8}" y="{frame.y(tick) + 4}" text-anchor="end">{tick:.2f}</text>'
        for tick in ticks
    ]


def _lines(frame: _Frame, points: Sequence[_Point]) -> list[str]:
    """The path of the standing adapter, flat through held rounds, and a spur to each held candidate."""
    standing = points[0]
    path = [f"M{frame.x(0)} {frame.y(standing.overall)}"]
    spurs = []
    for point in points[1:]:
        if point.promoted:
            standing = point
        else:
            spurs.append(
                f'<line class="spur" x1="{frame.x(point.round)}" y1="{frame.y(standing.overall)}" '
                f'x2="{frame.x(point.round)}" y2="{frame.y(point.overall)}"/>'
            )
        path.append(f"L{frame.x(point.round)} {frame.y(standing.overall)}")
    return [f'<path class="standing" d="{" ".join(path)}"/>', *spurs]


def _axis(frame: _Frame, points: Sequence[_Point]) -> list[str]:
    base = frame.height - BOTTOM
    drawn = [f'<line class="axis" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{base}" y2="{base}"/>']
    targets = {point.round: point.target for point in points}
    for number in range(frame.rounds + 1):
        x = frame.x(number)
        drawn.append(f'<text class="tick" x="{x}" y="{base + 20}" text-anchor="middle">{number or "cold"}</text>')
        if target := targets.get(number):
            drawn.append(f'<rect class="pill" x="{x - 16}" y="{base + 30}" width="32" height="20" rx="10"/>')
            drawn.append(f'<text class="pill-text" x="{x}" y="{base + 44}" text-anchor="middle">{target}</text>')
    drawn.append(f'<text class="tick" x="{LEFT - 8}" y="{base + 20}" text-anchor="end">round</text>')
    drawn.append(f'<text class="tick" x="{LEFT - 8}" y="{base + 44}" text-anchor="end">target</text>')
    return drawn


def _mark(frame: _Frame, point: _Point) -> list[str]:
    x, y = frame.x(point.round), frame.y(point.overall)
    practised = f", practised {point.target}" if point.target else ""
    tip = f"<title>round {point.round}: {point.overall:.4f}, {point.label}{practised}</title>"
    if point.promoted is False:
        shape = f'<path class="held" d="M{x} {y - 7}L{x + 7} {y}L{x} {y + 7}L{x - 7} {y}Z">{tip}</path>'
        below = y + 22
    else:
        kind = "cold" if point.promoted is None else "promoted"
        shape = f'<circle class="{kind}" cx="{x}" cy="{y}" r="6">{tip}</circle>'
        below = y - 13
    return [shape, f'<text class="value" x="{x}" y="{below}" text-anchor="middle">{point.overall:.3f}</text>']
