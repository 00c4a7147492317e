"""The Flower ServerApp: runs the round loop for the run directory that the run configuration names."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from common.base_model import read_base_model
from common.signing import SigningKey
from server.config import load_federation_config
from server.round_loop import RoundLoop
from server.run_directory import RunDirectory
from server.transport import FlowerTransport

__all__ = ["app"]

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation; its directory says how it went."""
    path = Path(str(context.run_config["directory"]))
    config = load_federation_config(path / "config.toml")
    key = SigningKey.load(config.signing_key)
    directory = RunDirectory(path, key)
    evaluator = None
    try:
        model = read_base_model(config.model)
        if config.evaluation.enabled:
            from server.gate_evaluator import GateEvaluator

            evaluator = GateEvaluator(config, path, key)
        RoundLoop(config, directory, FlowerTransport(grid), key, model, evaluator).run()
    finally:
        if evaluator is not None:
            evaluator.close()
        directory.close()
