"""What a suite's scores are measured against: the oracle, and the best script that does not look at the data.

Both depend on the suite alone, so they are computed once when it is built and kept beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from common.canonical import canonical_json
from common.errors import DataError
from common.sandbox import Sandbox
from common.stages import Focus, Track
from server.heldout import HeldoutSuite
from server.heldout_evaluation import SuiteRunner
from stage_bank.scripts import Script, oracle_commands, script
from stage_bank.tracks import TRACKS

__all__ = ["Yardsticks", "load_yardsticks", "measure_yardsticks", "save_yardsticks"]


@dataclass(frozen=True)
class Yardsticks:
    """Mean overall scores on one suite.

    Args:
        suite: digest of the suite.
        oracle: the right choice and every good habit in each task.
        fixed_script: the best fixed end-to-end script of each track, found on this very suite.
        scripts: that script of each track.
    """

    suite: str
    oracle: float
    fixed_script: float
    scripts: Mapping[str, Script]


def measure_yardsticks(suite: HeldoutSuite, sandbox: Sandbox) -> Yardsticks:
    """Play the oracle and search the best fixed script of each track.

    The search starts from the first value of every option with all good habits, and changes one option at a time to
    the value that scores best. It is given the suite's own scores, which no learner ever sees: an upper bound.
    """
    oracle = SuiteRunner(suite, sandbox).script(oracle_commands).overall
    best = {track: _best_script(suite, track, sandbox) for track in sorted({state.track for state in suite.states})}
    fixed = SuiteRunner(suite, sandbox).script(lambda state: best[state.track]).overall
    return Yardsticks(suite.digest, oracle, fixed, {track.value: commands for track, commands in best.items()})


def _best_script(suite: HeldoutSuite, track: Track, sandbox: Sandbox) -> Script:
    part = HeldoutSuite(suite.name, tuple(state for state in suite.states if state.track is track))
    runner = SuiteRunner(part, sandbox)
    options = TRACKS[track].options
    choice = {name: values[0] for name, values in options.items()}
    for name, values in options.items():
        scores = {}
        for value in values:
            commands = script(Focus.E2E, {**choice, name: value})
            scores[value] = runner.script(lambda _, commands=commands: commands).overall  # type: ignore[misc]
        choice[name] = max(values, key=scores.__getitem__)
    return script(Focus.E2E, choice)


def save_yardsticks(yardsticks: Yardsticks, path: Path) -> None:
    """Write as JSON."""
    path.write_bytes(canonical_json(json.loads(json.dumps(asdict(yardsticks)))))


def load_yardsticks(path: Path, suite: HeldoutSuite) -> Yardsticks:
    """Read the yardsticks of a suite.

    Raises:
        DataError: missing, unreadable, or measured on another suite.
    """
    try:
        fields = json.loads(path.read_bytes())
        fields["scripts"] = {track: tuple(commands) for track, commands in fields["scripts"].items()}
        yardsticks = Yardsticks(**fields)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError("cannot read the yardsticks", where=str(path), remedy="Build the suites again.") from error
    if yardsticks.suite != suite.digest:
        raise DataError("the yardsticks belong to another suite", where=str(path), remedy="Build the suites again.")
    return yardsticks
