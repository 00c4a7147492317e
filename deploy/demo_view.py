"""The demonstration's face: a live screen on a terminal, plain lines everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from deploy.demo_watch import SiteProgress, Snapshot
from server.report import RoundRecord, RunRecord

__all__ = ["LiveView", "PlainView", "View", "final_panel", "privacy_panel"]

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 20
"""Characters of a reward curve."""

REPORT_EVERY_STEPS = 10
"""Training steps between two plain lines of one site."""

PRIVACY = (
    "Differential privacy is OFF in this demonstration: the sample images come from nine patients, too few for a "
    "guarantee that leaves anything to learn. Only adapter tensors leave a site, and that alone"
    " guarantees nothing."
)


class View(Protocol):
    """Shows snapshots."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the newest state of things."""

    def say(self, line: str) -> None:
        """Print one lasting line."""

    def close(self) -> None:
        """Give the terminal back."""


class PlainView:
    """One line for each thing that happened.

    Args:
        console: where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: set[tuple[object, ...]] = set()
        self._elapsed_s = 0.0

    def show(self, snapshot: Snapshot) -> None:
        """Print what is new since the last snapshot."""
        self._elapsed_s = snapshot.elapsed_s
        for site in snapshot.sites:
            detail = f" ({site.detail})" if site.detail and site.round == 0 else ""
            in_round = f"round {site.round} " if site.round else ""
            self._once(("state", site.name, site.round, site.state), f"{site.name}: {in_round}{site.state}{detail}")
            if site.step and (site.step % REPORT_EVERY_STEPS == 0 or site.step == site.steps):
                text = f"{site.name}: round {site.round} step {site.step}/{site.steps} reward {_recent(site):.3f}"
                self._once(("step", site.name, site.round, site.step), text)
        if snapshot.run is not None:
            self._rounds(snapshot.run)

    def _rounds(self, run: RunRecord) -> None:
        if run.start is not None:
            self._once(("start",), f"held-out overall of the cold start: {run.start.overall:.3f}")
        for one in run.rounds:
            self._once(("target", one.number), f"round {one.number}: the sites practise {one.target.value}")
            if one.candidate is not None and one.gate is not None:
                text = f"round {one.number}: held-out overall {one.candidate.overall:.3f}, {_verdict(one)}"
                self._once(("gate", one.number), text)

    def say(self, line: str) -> None:
        """Print one line with the elapsed time."""
        self._console.print(Text(f"[{self._elapsed_s:6.1f} s] {line}"), soft_wrap=True)

    def close(self) -> None:
        """Nothing to give back."""

    def _once(self, key: tuple[object, ...], line: str) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self.say(line)


class LiveView:
    """A screen that is redrawn in place.

    Args:
        console: a terminal.
        title: what runs here.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._live.update(_screen(self._title, snapshot))

    def say(self, line: str) -> None:
        """Print a lasting line above the screen."""
        self._live.console.print(Text(line), soft_wrap=True)

    def close(self) -> None:
        """Clear the screen's last frame."""
        self._live.stop()


def privacy_panel() -> Panel:
    """What stands about privacy, for every demonstration."""
    return Panel(PRIVACY, title="privacy", border_style="yellow", title_align="left")


def final_panel(run: RunRecord, summary: Path, report: Path, wall_s: float, peak_rss_mb: float) -> RenderableType:
    """The closing table.

    Args:
        run: the finished run.
        summary: path of `summary.json`.
        report: path of `report.html`.
        wall_s: elapsed seconds of the whole demonstration.
        peak_rss_mb: largest resident memory of all its processes together, in MB.
    """
    lines = Table.grid(padding=(0, 2))
    if run.sealed is not None:
        gain = f"  ({run.sealed.gain:.2f} × the cold start)" if run.sealed.gain is not None else ""
        lines.add_row("sealed suite", f"cold start {run.sealed.cold_start:.3f} → final {run.sealed.final:.3f}{gain}")
        lines.add_row("", f"best fixed script {run.sealed.fixed_script:.3f}, oracle {run.sealed.oracle:.3f}")
    sent = sum(release.bytes for release in run.releases)
    lines.add_row(
        "left the sites", f"{len(run.releases)} adapter updates, {sent / 1e6:.1f} MB, each signed and in both ledgers"
    )
    lines.add_row("took", f"{_clock(wall_s)}, {peak_rss_mb:.0f} MB of memory at most")
    lines.add_row("report", str(report))
    lines.add_row("figures", str(summary))
    return Group(_rounds_table(run), Panel(lines, title="done", border_style="green", title_align="left"))


def _screen(title: str, snapshot: Snapshot) -> RenderableType:
    parts: list[RenderableType] = [_head(title, snapshot)]
    if snapshot.sites:
        parts.append(_sites_table(snapshot.sites, snapshot.run))
    if snapshot.run is not None and snapshot.run.start is not None:
        parts.append(_rounds_table(snapshot.run))
    parts.append(privacy_panel())
    return Group(*parts)


def _head(title: str, snapshot: Snapshot) -> Panel:
    left = f"about {_clock(snapshot.left_s)} left" if snapshot.left_s is not None else "time left not known yet"
    text = Text.assemble((snapshot.phase, "bold"), f"\n{_clock(snapshot.elapsed_s)} so far, {left}")
    return Panel(text, title=title, border_style="blue", title_align="left")


def _sites_table(sites: Iterable[SiteProgress], run: RunRecord | None) -> Table:
    table = Table(
        title="sites (read from each site's own files)",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("site", "does", "round", "stage", "step", "reward"):
        table.add_column(name, justify="right" if name in ("round", "step") else "left", no_wrap=True)
    targets = {one.number: one.target.value for one in run.rounds} if run is not None else {}
    for site in sites:
        doing = f"{site.state} ({site.detail})" if site.detail and not site.round else site.state
        reward = f"{_recent(site):.3f} {_spark(site.rewards)}" if site.rewards else ""
        step = f"{site.step}/{site.steps}" if site.steps else ""
        table.add_row(site.name, doing, str(site.round or ""), targets.get(site.round, ""), step, reward)
    return table


def _rounds_table(run: RunRecord) -> Table:
    table = Table(
        title="held-out scores (gate suite, at the server)",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("round", "stage", "overall", "task", "S1", "S2", "S3", "S4", "S5"):
        table.add_column(name, justify="left" if name == "stage" else "right", no_wrap=True)
    table.add_column("verdict")
    if run.start is not None:
        stages = [f"{score:.2f}" for score in run.start.stages.values()]
        table.add_row("0", "", f"{run.start.overall:.3f}", f"{run.start.task:.3f}", *stages, "cold start")
    for one in run.rounds:
        if one.candidate is None:
            table.add_row(str(one.number), one.target.value, *[""] * 7, "under way")
            continue
        stages = [f"{score:.2f}" for score in one.candidate.stages.values()]
        style = "green" if one.gate is not None and one.gate.promoted else "yellow"
        table.add_row(
            str(one.number),
            one.target.value,
            f"{one.candidate.overall:.3f}",
            f"{one.candidate.task:.3f}",
            *stages,
            Text(_verdict(one), style=style),
        )
    return table


def _verdict(one: RoundRecord) -> str:
    if one.gate is None:
        return "at the gate"
    return "promoted" if one.gate.promoted else f"held: {', '.join(one.gate.failing).replace('_', ' ')}"


def _recent(site: SiteProgress) -> float:
    window = site.rewards[-5:]
    return sum(window) / len(window)


def _spark(values: Sequence[float]) -> str:
    """A curve of characters, the last `SPARK_WIDTH` values between their own lowest and highest."""
    shown = values[-SPARK_WIDTH:]
    low, high = min(shown), max(shown)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in shown)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s" if seconds >= 60 else f"{seconds:.0f} s"
