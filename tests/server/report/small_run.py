"""A run directory written by the real round loop: real settings, keys, ledger, verification, aggregation and gate.

Only the two protocols at its edges are played here: the sites answer in this process, and scores are given.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from common.adapter import Adapter, RawTensor, adapter_digest, encode_adapter
from common.base_model import INITIAL_ADAPTER, BaseModel, read_base_model
from common.canonical import digest_bytes
from common.messages import (
    OptimizerSettings,
    Prescription,
    Release,
    SiteDescription,
    message_digest,
    sign_message,
    verify_message,
)
from common.signing import SigningKey, VerifyKey
from common.stages import STAGES, Track
from server.config import FederationConfig, SiteEnrolment
from server.evaluation import Cell, EvaluationSummary, summarise
from server.round_loop import RoundLoop
from server.run_directory import RunDirectory, write_json
from server.verification import Reply

TRACKS = (Track.CLASSIFICATION, Track.ENHANCEMENT, Track.SEGMENTATION)

SITES = ("north", "south", "west")


class LocalSites:
    """Answers every prescription with a signed update, except the silent (round, site) pairs."""

    def __init__(
        self, keys: Mapping[str, SigningKey], server: VerifyKey, model: BaseModel, silent: Sequence[tuple[int, str]]
    ) -> None:
        self._keys, self._server, self._model, self._silent = keys, server, model, silent

    def enrol(self, keys: Mapping[str, VerifyKey], timeout_s: float) -> dict[str, SiteDescription]:
        return {
            name: SiteDescription(
                site=name, public_key=key.hex, base_model=self._model.digest, tracks=TRACKS, software="test"
            )
            for name, key in keys.items()
        }

    def exchange(
        self, prescriptions: Mapping[str, bytes], adapter: bytes, timeout_s: float
    ) -> Iterator[tuple[str, Reply]]:
        for site, signed in prescriptions.items():
            prescription = verify_message(signed, Prescription, self._server)
            if (prescription.round, site) in self._silent:
                yield site, Reply(fault="no answer")
            else:
                yield site, self._release(site, prescription)

    def _release(self, site: str, prescription: Prescription) -> Reply:
        fill = np.float32(prescription.round + SITES.index(site) / 10)
        update = encode_adapter(
            {
                name: RawTensor.from_array(np.full(shape, fill, np.float32))
                for name, (_, shape) in self._model.spec.of_update.tensors.items()
            }
        )
        release = Release(
            run=prescription.run,
            round=prescription.round,
            site=site,
            prescription=message_digest(prescription),
            base_model=self._model.digest,
            starting_adapter=prescription.starting_adapter,
            adapter_spec=self._model.spec.digest,
            update=digest_bytes(update),
            update_bytes=len(update),
            epsilon=None,
        )
        return Reply(release=sign_message(release, self._keys[site]), update=update)


class GivenScores:
    """Hands out one evaluation after the other, every cell with the given score."""

    def __init__(self, scores: Sequence[float]) -> None:
        self._scores = iter(scores)

    def evaluate(self, adapter: Adapter) -> EvaluationSummary:
        score = next(self._scores)
        cells = [Cell(track, "t1", 0, score, dict.fromkeys(STAGES, score)) for track in TRACKS]
        return summarise(cells, adapter_digest(encode_adapter(adapter)))


def write_run(
    folder: Path,
    *,
    scores: Sequence[float] = (0.3, 0.4, 0.35, 0.5),
    silent: Sequence[tuple[int, str]] = ((2, "west"),),
    sealed: bool = True,
) -> Path:
    """Run the loop for `len(scores) - 1` rounds.

    Args:
        folder: where run, model and keys go.
        scores: of the cold start and of each candidate.
        silent: (round, site) pairs that do not answer.
        sealed: whether sealed scores are there.
    """
    initial = {name: RawTensor.from_array(np.zeros((4, 2), np.float32)) for name in ("layer.A", "layer.B")}
    (folder / "model").mkdir(parents=True)
    (folder / "model" / INITIAL_ADAPTER).write_bytes(encode_adapter(initial))
    model = read_base_model(folder / "model")
    server = SigningKey.load_or_create(folder / "server.key")
    keys = {name: SigningKey.generate() for name in SITES}
    config = FederationConfig(
        run="small",
        seed=7,
        rounds=len(scores) - 1,
        model=folder / "model",
        signing_key=folder / "server.key",
        sites=tuple(SiteEnrolment(name=name, public_key=key.public.hex) for name, key in keys.items()),
        optimizer=OptimizerSettings(
            steps=1,
            groups_per_step=1,
            group_size=2,
            learning_rate=1e-3,
            kl_coefficient=0.0,
            temperature=1.0,
            max_turns=4,
            max_tokens=64,
        ),
        quorum=2,
    )
    run = folder / "runs" / "small"
    directory = RunDirectory.create(run, config, server)
    try:
        sites = LocalSites(keys, server.public, model, silent)
        RoundLoop(config, directory, sites, server, model, GivenScores(scores)).run()
    finally:
        directory.close()
    if sealed:
        write_json(
            run / "sealed.json",
            {"suite": "0" * 64, "cold_start": 0.25, "final": 0.5, "oracle": 1.0, "fixed_script": 0.45},
        )
    return run
