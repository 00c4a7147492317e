"""The Flower ServerApp: runs the round loop for the run directory that the run configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from common.base_model import read_base_model
from common.signing import SigningKey
from server.config import FederationConfig, load_federation_config
from server.round_loop import RoundLoop
from server.run_directory import RunDirectory
from server.transport import FlowerTransport

if TYPE_CHECKING:
    from server.gate_evaluator import GateEvaluator

__all__ = ["app"]

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation; its directory says how it went."""
    path = Path(str(context.run_config["directory"]))
    config = load_federation_config(path / "config.toml")
    key = SigningKey.load(config.signing_key)
    directory = RunDirectory(path, key)
    evaluator: GateEvaluator | None = None
    try:
        try:
            model = read_base_model(config.model)
            evaluator = _evaluator(config, path, key) if config.evaluation.enabled else None
        except Exception as error:
            directory.checkpoint(
                {"run": config.run, "rounds": config.rounds, "step": "failed", "reason": str(error)[:500]}
            )
            raise
        RoundLoop(config, directory, FlowerTransport(grid), key, model, evaluator).run()
    finally:
        if evaluator is not None:
            evaluator.close()
        directory.close()


def _evaluator(config: FederationConfig, path: Path, key: SigningKey) -> GateEvaluator:
    """Loads torch, so only where there is something to evaluate."""
    from server.gate_evaluator import GateEvaluator

    return GateEvaluator(config, path, key)
