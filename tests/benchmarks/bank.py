"""A Stage Bank of 100,000 states: counting, materialising a round and making a snapshot, each in under a second.

    python tests/benchmarks/bank.py [--states 100000]

The states' files are left out: only the index has to bear the number. The peer is the same work on a tenth of the
states, so that the ratio shows how it grows. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice, product
from pathlib import Path

from common.stages import Focus, Outcome, Stage, Track
from stage_bank.materialise import materialise
from stage_bank.store import BankRow, StageBank, Vault
from stage_bank.store.index import Index

GOAL_S = 1.0
STATE_BYTES = 40_000


def rows(states: int, first: int = 0) -> list[tuple[BankRow, int]]:
    """Made-up index rows, spread over all cells and 500 patients."""
    cells = islice(cycle(product(Focus, Track, Outcome)), states)
    return [
        (BankRow(hashlib.sha256(b"%d" % number).hexdigest(), *cell, f"{number % 500:032x}"), STATE_BYTES)
        for number, cell in enumerate(cells, first)
    ]


def seconds(act: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def measure(states: int) -> dict[str, float]:
    """Seconds of each operation on a bank of so many states."""
    with tempfile.TemporaryDirectory() as folder, StageBank.create(Path(folder) / "bank", Vault(bytes(32))) as bank:
        index = Index(bank.path / "index.sqlite")
        index.insert(rows(states), 1)
        times = {"snapshot": seconds(bank.snapshot), "stats": seconds(bank.stats)}
        latest = bank.latest_snapshot()
        assert latest is not None
        times["sampling"] = seconds(
            lambda: materialise(
                latest.rows, round_id="bench", target_stage=Stage.VALIDATE, tracks=list(Track), batches=12
            )
        )
        index.insert(rows(100, states), 2)
        index.close()
        times["next snapshot"] = seconds(bank.snapshot)
        return times


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=100_000)
    states = parser.parse_args().states
    tenth, whole = measure(states // 10), measure(states)
    for name, took in whole.items():
        print(f"{name:14} {took:.3f} s  (a tenth of the states: {tenth[name]:.3f} s)")
    slowest = max(whole, key=lambda name: whole[name])
    result = {
        "name": "bank",
        "ours": round(whole[slowest], 3),
        "peer": round(tenth[slowest], 3),
        "ratio": round(whole[slowest] / tenth[slowest], 2),
        "unit": f"s, slowest of stats, sampling and snapshot ({slowest}) at {states} states",
        "goal": f"ours <= {GOAL_S}",
        "holds": whole[slowest] <= GOAL_S,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
