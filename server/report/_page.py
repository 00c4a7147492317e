"""The report page: one HTML file that needs nothing else, for a desk and for a phone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from common.messages import SelectionReason
from common.stages import STAGES, Stage, Track
from server.report._curve import curve_svg
from server.report.record import RunRecord, Scores

__all__ = ["render"]

STAGE_TITLES = {
    Stage.PLAN: "S1 Plan",
    Stage.SETUP: "S2 Setup",
    Stage.VALIDATE: "S3 Validate",
    Stage.INFER: "S4 Inference",
    Stage.SUBMIT: "S5 Submit",
}

REASONS = {
    SelectionReason.INITIAL: "weakest at the start",
    SelectionReason.LOWEST_CANDIDATE_STAGE: "lowest stage",
    SelectionReason.LARGEST_POSITIVE_REGRESSION: "fell most",
}


@dataclass(frozen=True)
class _HeatCell:
    score: float | None
    target: bool


@dataclass(frozen=True)
class _HeatRow:
    label: str
    cells: tuple[_HeatCell, ...]
    heading: str = ""


@dataclass(frozen=True)
class _Heat:
    columns: tuple[str, ...]
    rows: tuple[_HeatRow, ...]


def render(record: RunRecord, doubt: str = "") -> str:
    """The whole page as text. It loads nothing: style and drawings are inside it.

    Args:
        record: the run, as far as it came.
        doubt: why the figures do not agree with the signed record, shown above everything; empty when they do.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["thousands"] = lambda number: f"{number:,}".replace(",", "\u202f")
    environment.filters["drop"] = lambda number: f"{number:+.3f}".replace("-", "−")
    package = files("server.report")
    template = environment.from_string(package.joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        run=record,
        doubt=doubt,
        headline=_headline(record),
        tiles=_tiles(record),
        style=Markup(package.joinpath("style.css").read_text(encoding="utf-8")),
        curve_wide=Markup(curve_svg(record, 900, 340)),
        curve_narrow=Markup(curve_svg(record, 350, 300)),
        heat=_heat(record),
        sealed=_sealed(record),
        gates=[
            {
                "number": one.number,
                "target": STAGE_TITLES[one.target],
                "reason": REASONS[one.reason],
                "gate": one.gate,
                "failing": ", ".join(name.replace("_", " ") for name in one.gate.failing) if one.gate else "",
                "wall_s": one.wall_s,
            }
            for one in record.rounds
        ],
    )


def _headline(record: RunRecord) -> str:
    promoted = sum(one.gate is not None and one.gate.promoted for one in record.rounds)
    decided = sum(one.gate is not None for one in record.rounds)
    rounds = f"{decided} round{'' if decided == 1 else 's'}, {promoted} promoted"
    if record.sealed is None:
        return f"Run stopped before its end: {rounds}"
    verb = "rose" if record.sealed.final > record.sealed.cold_start else "went"
    return f"Sealed-suite overall {verb} from {record.sealed.cold_start:.3f} to {record.sealed.final:.3f} in {rounds}"


def _tiles(record: RunRecord) -> list[tuple[str, str]]:
    tiles = []
    if record.sealed is not None:
        gain = record.sealed.gain
        tiles.append((f"{gain:.2f} ×" if gain is not None else "–", "final over cold start, sealed suite"))
    if record.start is not None and record.standing is not None:
        tiles.append((f"{record.standing.overall:.3f}", f"gate suite now, from {record.start.overall:.3f}"))
    sent = sum(release.bytes for release in record.releases)
    tiles.append((f"{sent / 1e6:.1f} MB", f"left the sites, in {len(record.releases)} releases"))
    tiles.append((f"{int(record.wall_s) // 60} min {int(record.wall_s) % 60:02d} s", "from first to last event"))
    return tiles


def _sealed(record: RunRecord) -> list[tuple[str, float, bool]]:
    if record.sealed is None:
        return []
    return [
        ("Cold start", record.sealed.cold_start, True),
        ("Final adapter", record.sealed.final, True),
        ("Best fixed script", record.sealed.fixed_script, False),
        ("Oracle", record.sealed.oracle, False),
    ]


def _heat(record: RunRecord) -> _Heat | None:
    if record.start is None:
        return None
    columns: list[tuple[str, Scores, Stage | None]] = [("cold", record.start, None)]
    columns += [(f"R{one.number}", one.candidate, one.target) for one in record.rounds if one.candidate is not None]

    def row(label: str, score: Callable[[Scores], float | None], stage: Stage | None, heading: str) -> _HeatRow:
        cells = (_HeatCell(score(scores), stage is not None and stage == target) for _, scores, target in columns)
        return _HeatRow(label, tuple(cells), heading)

    def stage_score(stage: Stage) -> Callable[[Scores], float | None]:
        return lambda scores: scores.stages.get(stage)

    def track_score(track: Track) -> Callable[[Scores], float | None]:
        return lambda scores: scores.tracks.get(track)

    rows = [row(STAGE_TITLES[stage], stage_score(stage), stage, "") for stage in STAGES]
    rows.append(row("Task", lambda scores: scores.task, None, ""))
    rows.append(row("Overall", lambda scores: scores.overall, None, ""))
    for index, track in enumerate(sorted(record.start.tracks)):
        rows.append(row(track.value, track_score(track), None, "Overall by track" if index == 0 else ""))
    return _Heat(tuple(name for name, _, _ in columns), tuple(rows))
