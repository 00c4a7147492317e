"""What the demonstration shows while it runs, gathered from local files only.

Rewards come from each site's own progress file, which the server never sees; held-out scores come from the server's run
directory. In a real federation no single person can read both.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from common.errors import BatError
from server.report import Practice, RunRecord, read_run

__all__ = ["JsonLines", "SiteProgress", "SiteWatch", "Snapshot", "Watch", "time_left"]

DETAILS = ("patients", "images", "refused", "states", "of")
"""Counts of a progress record that say more about a state; they stay on this screen."""

TRAINING_SHARE = 0.75
"""Part of a round that is training, for the estimate before the first round has ended."""

CLOSING_ROUNDS = 0.5
"""Length of the sealed evaluation, in rounds."""


@dataclass(frozen=True)
class SiteProgress:
    """Where one site stands.

    Args:
        name: the site.
        state: what its daemon does.
        detail: a few words on it, such as what the ingest found.
        round: the round it last worked on, 0 before the first.
        target: the stage that round practises most, or empty.
        step: optimizer steps done in that round.
        steps: optimizer steps of that round, 0 when not known yet.
        rewards: mean reward of each step of that round, in [0, 1].
        step_s: seconds that a step of that round takes on average.
        before: mean reward of each earlier round.
        bank_wait_s: longest wait for the Stage Bank before a round, in seconds.
    """

    name: str
    state: str = "starting"
    detail: str = ""
    round: int = 0
    target: str = ""
    step: int = 0
    steps: int = 0
    rewards: tuple[float, ...] = ()
    step_s: float = 0.0
    before: tuple[float, ...] = ()
    bank_wait_s: float = 0.0

    def practice(self) -> Practice:
        """What the site's own figures come to."""
        own = (fmean(self.rewards),) if self.rewards else ()
        return Practice(self.name, (*self.before, *own), self.bank_wait_s)


@dataclass(frozen=True)
class Snapshot:
    """Everything on the screen at one moment.

    Args:
        phase: what the demonstration does now.
        elapsed_s: seconds since its start.
        left_s: estimate of the seconds still to come, or `None` when nothing is known yet.
        sites: one entry a site.
        run: the server's record, or `None` before there is one.
    """

    phase: str
    elapsed_s: float
    left_s: float | None
    sites: tuple[SiteProgress, ...]
    run: RunRecord | None


class JsonLines:
    """Reads what was appended to a JSON Lines file since the last look.

    Args:
        path: the file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[Mapping[str, Any]]:
        """The objects of every complete new line; a line that is not a JSON object is passed over."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


class SiteWatch:
    """Follows one site's local progress file.

    Args:
        name: the site.
        progress_file: JSON Lines written by its daemon.
    """

    def __init__(self, name: str, progress_file: Path) -> None:
        self._lines = JsonLines(progress_file)
        self.progress = SiteProgress(name)

    def update(self) -> SiteProgress:
        """Take in what is new."""
        for record in self._lines.new():
            self.progress = _advance(self.progress, record)
        return self.progress


class Watch:
    """Gathers snapshots of a run.

    Args:
        run: the run directory.
        progress_files: site to its local progress file.
        started: `time.monotonic()` of the demonstration's start.
    """

    def __init__(self, run: Path, progress_files: Mapping[str, Path], started: float) -> None:
        self._run = run
        self._sites = [SiteWatch(name, path) for name, path in progress_files.items()]
        self._started = started
        self._present_round = 0
        self._round_started = started

    def snapshot(self, phase: str) -> Snapshot:
        """Everything as it stands now.

        Args:
            phase: what the demonstration does.
        """
        now = time.monotonic()
        sites = tuple(site.update() for site in self._sites)
        run = self._record()
        number = 0 if run is None else sum(one.wall_s is not None for one in run.rounds) + 1
        if number != self._present_round:
            self._present_round, self._round_started = number, now
        left = time_left(run, sites, now - self._round_started)
        return Snapshot(phase, now - self._started, left, sites, run)

    def _record(self) -> RunRecord | None:
        if not (self._run / "ledger.jsonl").exists():
            return None
        # The server replaces its files while they are read; the next look will find them whole.
        with contextlib.suppress(BatError):
            return read_run(self._run)
        return None


def _advance(now: SiteProgress, record: Mapping[str, Any]) -> SiteProgress:
    number = record.get("round", now.round)
    if number != now.round:
        now = replace(now, round=number, step=0, steps=0, rewards=(), before=now.practice().rewards)
    if "state" in record:
        detail = " ".join(f"{key} {record[key]}" for key in DETAILS if key in record)
        now = replace(now, state=str(record["state"]), detail=detail)
    if "reward_mean" in record:
        done = len(now.rewards)
        now = replace(
            now,
            step=int(record["step"]),
            steps=int(record["steps"]),
            rewards=(*now.rewards, float(record["reward_mean"])),
            step_s=(now.step_s * done + float(record["seconds"])) / (done + 1),
            bank_wait_s=max(now.bank_wait_s, float(record.get("bank_wait_s", 0.0))),
        )
    return now


def time_left(run: RunRecord | None, sites: Sequence[SiteProgress], round_s: float) -> float | None:
    """Estimate the seconds still to come from the pace so far.

    A round is taken to last as long as those before it, the closing evaluation on the sealed suite half a round.

    Args:
        run: the server's record.
        sites: where the sites stand.
        round_s: seconds since the present round began.

    Returns:
        Seconds, or `None` before the first training step is done.
    """
    if run is None:
        return None
    walls = [one.wall_s for one in run.rounds if one.wall_s is not None]
    training = max((site.steps * site.step_s for site in sites), default=0.0) / TRAINING_SHARE
    typical = sum(walls) / len(walls) if walls else training
    if typical <= 0:
        return None
    rounds = run.rounds_planned - len(walls)
    ahead = max(((site.steps - site.step) * site.step_s for site in sites), default=0.0)
    present = max(ahead, typical - round_s) if rounds else 0.0
    return present + typical * (max(0, rounds - 1) + CLOSING_ROUNDS)
