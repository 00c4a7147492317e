"""The evaluator of a run: the base policy, the gate suite and a sandbox, loaded once."""

from __future__ import annotations

from pathlib import Path

from common.adapter import Adapter
from common.policy import load_policy
from common.sandbox import Sandbox
from common.signing import SigningKey
from server.config import FederationConfig
from server.evaluation import EvaluationSummary
from server.heldout import HeldoutSuite, build_suite, load_suite
from server.heldout_evaluation import SuiteRunner
from stage_bank.images import Split
from stage_bank.toolkit import open_toolkit_sandbox

__all__ = ["GateEvaluator", "open_suite", "suite_file"]


def suite_file(run: Path, name: Split) -> Path:
    """Where a run keeps one of its two suites."""
    return run / "suites" / f"{name}.jsonl"


def open_suite(config: FederationConfig, run: Path, name: Split, sandbox: Sandbox) -> HeldoutSuite:
    """A run's suite, built from its settings when it has none yet."""
    path = suite_file(run, name)
    if not path.exists():
        cells = config.evaluation.cells_per_track
        build_suite(name, sandbox, tracks=config.tracks, cells_per_track=cells, seed=config.seed).save(path)
    return load_suite(path)


class GateEvaluator:
    """Scores adapters on the gate suite of a run; builds the suite on first use.

    Args:
        config: the run's settings.
        run: the run directory.
        key: the sandbox signs receipts with it.
        name: which suite.
    """

    def __init__(self, config: FederationConfig, run: Path, key: SigningKey, name: Split = "gate") -> None:
        self._policy = load_policy(config.model)
        self._sandbox = open_toolkit_sandbox(key)
        self._runner = SuiteRunner(open_suite(config, run, name, self._sandbox), self._sandbox)

    def evaluate(self, adapter: Adapter) -> EvaluationSummary:
        """Decode greedily with `adapter` in every cell; see `server.round_loop.Evaluator`."""
        return self._runner.policy(self._policy, adapter)

    def close(self) -> None:
        """End the sandbox."""
        self._sandbox.close()
