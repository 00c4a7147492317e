"""States fabricated a second from pictures that are ingested already, on two cores.

    python tests/benchmarks/fabrication.py [--seconds 15]

Three figures, on the sample hospitals' pictures with crops of 64 by 64 and every track in turn:

- without handoffs: cases, references and the second view of a clean start, before any admission; two processes. Its
  goal is 200 a second.
- sealed: what the builder does, from the image store to states in the encrypted bank, with handoffs of real sandbox
  runs, the admission check, all walls but the server's, and snapshots. Its goal is 20 a second.
- the peer: sealed with one condition under way at a time.

Three states share a patient's pixels and condition in all of them, as in the builder. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import tomli_w

from client.bank_builder import fill_bank
from client.bank_schedule import STATES_PER_CONDITION
from client.site_config import load_site_config
from client.site_images import ingest_images, open_image_store
from common.sandbox import Sandbox, SandboxSession
from common.signing import SigningKey
from common.stages import Focus, Outcome
from deploy.sample_sites import make
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.picture import Picture
from stage_bank.toolkit import open_toolkit_sandbox
from stage_bank.tracks import TRACKS

CORES = 2
GOAL_FABRICATED = 200.0
GOAL_SEALED = 20.0
SEALED_STATES = 252
PROCESS = get_context("spawn")


def fabricate(patients: Sequence[tuple[str, list[Picture]]], first: int, seconds: float) -> tuple[int, float]:
    """Every other condition from `first` on, as many as fit; states and seconds they took."""
    tracks = list(TRACKS)
    made, number = 0, first
    sandbox = _NoSandbox()
    started = time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        rng = np.random.default_rng([1, number])
        track = tracks[number // CORES % len(tracks)]
        patient, pictures = patients[number % len(patients)]
        maker = Fabricator(track, random_condition(track, rng), pictures, patient, rng, sandbox)
        for _ in range(STATES_PER_CONDITION):
            made += len(maker.draft(Focus.E2E, Outcome.SUCCESS, rng).state_id) == 64
        number += CORES
    return made, spent


class _NoSandbox(Sandbox):
    """Proves that nothing is run: a clean start has no handoff."""

    def open(self, files: Mapping[str, bytes]) -> SandboxSession:
        raise AssertionError("a state without a handoff was run")

    def close(self) -> None:
        """Nothing to end."""


def _fabricate_here(arguments: tuple[Sequence[tuple[str, list[Picture]]], int, float]) -> tuple[int, float]:
    return fabricate(*arguments)


def sealed(root: Path, data: Path, workers: int) -> float:
    """States a second, from a filled image store to the last snapshot."""
    settings = {
        "site": "bench",
        "data": str(data),
        "state": str(root),
        "model": str(root),
        "server": {"public_key": "ab" * 32},
        "policy": {"tracks": [track.value for track in TRACKS]},
        "bank": {"states": SEALED_STATES, "first_snapshot": 42, "workers": workers},
    }
    root.mkdir()
    (root / "site.toml").write_text(tomli_w.dumps(settings))
    config = load_site_config(root / "site.toml")
    ingest_images(config, data)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        started = time.perf_counter()
        filled = fill_bank(config, sandbox, lambda _: None)
        spent = time.perf_counter() - started
    finally:
        sandbox.close()
    assert filled.added == len(filled.snapshot.rows) == SEALED_STATES
    return SEALED_STATES / spent


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0)
    seconds = parser.parse_args().seconds
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="bat-", dir="/tmp") as name:
        root = Path(name)
        root.chmod(0o711)
        data = make(root / "hospitals")["mr"]
        one, ours = sealed(root / "one", data, 1), sealed(root / "two", data, CORES)
        config = load_site_config(root / "two" / "site.toml")
        store = open_image_store(config)
        patients = [(patient, store.pictures(patient)) for patient in store.patients()]
        with PROCESS.Pool(CORES) as pool:
            parts = pool.map(_fabricate_here, [(patients, core, seconds) for core in range(CORES)])
    fabricated = sum(made / spent for made, spent in parts)
    print(f"without handoffs {fabricated:.0f} states/s on {CORES} cores (goal {GOAL_FABRICATED:.0f})")
    print(f"sealed {ours:.1f} states/s with {CORES} conditions at once (goal {GOAL_SEALED:.0f}), {one:.1f} with one")
    result = {
        "name": "fabrication",
        "ours": round(ours, 1),
        "peer": round(one, 1),
        "ratio": round(ours / one, 2),
        "unit": f"sealed states/s with handoffs; without handoffs {fabricated:.0f}/s; peer: one condition at a time",
        "goal": f"sealed >= {GOAL_SEALED:.0f}/s and without handoffs >= {GOAL_FABRICATED:.0f}/s",
        "holds": ours >= GOAL_SEALED and fabricated >= GOAL_FABRICATED,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
