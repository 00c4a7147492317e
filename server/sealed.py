"""The closing word on a run: its adapters on the sealed suite, which gate and curriculum never see.

It is opened once, after the last round, and by nothing that chooses anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from common.adapter import decode_adapter
from common.canonical import digest_file
from common.errors import ConfigurationError
from common.policy import load_policy
from common.sandbox import Sandbox
from common.signing import SigningKey
from common.stages import Track
from server.config import load_federation_config
from server.gate_evaluator import open_suite
from server.heldout import HeldoutSuite, build_suite
from server.heldout_evaluation import SuiteRunner
from server.run_directory import RunDirectory, write_json
from server.yardsticks import Yardsticks, load_yardsticks, measure_yardsticks, save_yardsticks
from stage_bank.toolkit import open_toolkit_sandbox

__all__ = ["SEALED_FILE", "SealedResult", "prepare_suites", "score_sealed"]

SEALED_FILE = "sealed.json"

YARDSTICKS_FILE = "sealed-yardsticks.json"
"""In the folder of the suites."""


@dataclass(frozen=True)
class SealedResult:
    """Mean overall on the sealed suite.

    Args:
        suite: digest of the suite.
        cold_start: the adapter that round 1 started from.
        final: the standing adapter.
        oracle: the right command everywhere.
        fixed_script: the best fixed script of each track.
    """

    suite: str
    cold_start: float
    final: float
    oracle: float
    fixed_script: float


def prepare_suites(folder: Path, tracks: Sequence[Track], cells_per_track: int, seed: int) -> None:
    """Build both suites and the yardsticks ahead of a run, to be copied into its directory.

    Args:
        folder: where `gate.jsonl`, `sealed.jsonl` and the yardsticks go.
        tracks: task families.
        cells_per_track: tasks of each family in each suite.
        seed: decides images, views and conditions.

    Raises:
        DataError: the public images do not admit enough tasks.
        SandboxError: no sandbox on this machine.
    """
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        build_suite("gate", sandbox, tracks=tracks, cells_per_track=cells_per_track, seed=seed).save(
            folder / "gate.jsonl"
        )
        sealed = build_suite("sealed", sandbox, tracks=tracks, cells_per_track=cells_per_track, seed=seed)
        sealed.save(folder / "sealed.jsonl")
        _yardsticks(folder, sealed, sandbox)
    finally:
        sandbox.close()


def score_sealed(run: Path) -> SealedResult:
    """Score a run's first and standing adapter; the result is kept as `sealed.json`, its digest in the ledger.

    Args:
        run: the run directory; suite and yardsticks are made in it when it has none.

    Raises:
        ConfigurationError: an adapter or the server's key is missing.
        LedgerError: the run is still going on, or its ledger does not verify.
        BatError: model, sandbox or suite cannot be used.
    """
    config = load_federation_config(run / "config.toml")
    key = SigningKey.load(config.signing_key)
    first, standing = (_read(run / name) for name in ("rounds/0/candidate.safetensors", "adapter.safetensors"))
    policy = load_policy(config.model)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        suite = open_suite(config, run, "sealed", sandbox)
        yardsticks = _yardsticks(run / "suites", suite, sandbox)
        runner = SuiteRunner(suite, sandbox)
        cold = runner.policy(policy, decode_adapter(first)).overall
        final = cold if standing == first else runner.policy(policy, decode_adapter(standing)).overall
    finally:
        sandbox.close()
    result = SealedResult(suite.digest, cold, final, yardsticks.oracle, yardsticks.fixed_script)
    directory = RunDirectory(run, key)
    try:
        write_json(run / SEALED_FILE, asdict(result))
        directory.ledger.append("sealed", {"sealed": digest_file(run / SEALED_FILE)})
    finally:
        directory.close()
    return result


def _yardsticks(folder: Path, suite: HeldoutSuite, sandbox: Sandbox) -> Yardsticks:
    path = folder / YARDSTICKS_FILE
    if not path.exists():
        save_yardsticks(measure_yardsticks(suite, sandbox), path)
    return load_yardsticks(path, suite)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError("an adapter of the run is missing", where=str(path)) from error
