"""A full round of 3,024 rows, from a snapshot to published JSON Lines and manifest, in under two seconds.

    python tests/benchmarks/materialise.py

The peer reads the same rows back and checks them. The last line is one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from itertools import product

from common.stages import Focus, Outcome, Stage, Track
from stage_bank.materialise import materialise
from stage_bank.materialise.published import read_round, round_lines, round_manifest, source_lines
from stage_bank.store import BankRow

GOAL_S = 2.0
PER_CELL = 8
REPEATS = 5


def main() -> None:
    """Measure and print the result."""
    cells = [cell for cell in product(Focus, Track, Outcome) for _ in range(PER_CELL)]
    bank = [BankRow(hashlib.sha256(b"%d" % n).hexdigest(), *cell, "p") for n, cell in enumerate(cells)]
    made, checked = [], []
    for repeat in range(REPEATS):
        started = time.perf_counter()
        rows = materialise(bank, round_id=f"bench {repeat}", target_stage=Stage.VALIDATE, tracks=list(Track))
        sources, train = source_lines(bank), round_lines(rows, Stage.VALIDATE)
        manifest = round_manifest("bench", Stage.VALIDATE, rows, ("sources", sources), ("round", train))
        made.append(time.perf_counter() - started)
        assert len(rows) == 3024
        started = time.perf_counter()
        assert read_round(train, manifest, bank) == rows
        checked.append(time.perf_counter() - started)
    ours, peer = statistics.median(made), statistics.median(checked)
    result = {
        "name": "materialise",
        "ours": round(ours, 3),
        "peer": round(peer, 3),
        "ratio": round(ours / peer, 2),
        "unit": "s for 3,024 rows; peer reads and checks them",
        "goal": f"ours <= {GOAL_S}",
        "holds": ours <= GOAL_S,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
