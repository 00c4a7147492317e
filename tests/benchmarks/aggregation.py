"""FedAvg of 100 updates of 4 M parameters, against Flower's own aggregation of the same arrays, runs interleaved.

    python tests/benchmarks/aggregation.py

Both get the same values, already deserialised. The last line is one JSON object.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

from common.adapter import RawTensor
from server.aggregation import RuleOptions, make_aggregator

SITES, TENSORS, NUMBERS = 100, 16, 250_000
DISTINCT = 10
"""Updates held in memory, each given ten times."""
REPEATS = 5
GOAL = 3.0


def main() -> None:
    """Measure and print the result."""
    rng = np.random.default_rng(0)
    arrays = [{f"t{n}": rng.normal(size=NUMBERS).astype(np.float32) for n in range(TENSORS)} for _ in range(DISTINCT)]
    records = [
        RecordDict({"u": ArrayRecord({n: Array(a) for n, a in one.items()}), "w": MetricRecord({"n": 1.0 + place % 3})})
        for place, one in enumerate(arrays)
    ]
    updates = [{name: RawTensor.from_array(array) for name, array in one.items()} for one in arrays]
    start = {name: RawTensor.from_array(np.zeros_like(array)) for name, array in arrays[0].items()}
    ours, peer = [], []
    for _ in range(REPEATS):
        began = time.perf_counter()
        theirs = aggregate_arrayrecords(records * (SITES // DISTINCT), "n")
        peer.append(time.perf_counter() - began)
        began = time.perf_counter()
        rule = make_aggregator("fedavg", start, RuleOptions())
        for site in range(SITES):
            rule.add(updates[site % DISTINCT], 1.0 + site % DISTINCT % 3)
        made = rule.finish()
        ours.append(time.perf_counter() - began)
        np.testing.assert_allclose(made["t0"].to_float32(), theirs["t0"].numpy(), atol=1e-5)
    mine, flower = statistics.median(ours), statistics.median(peer)
    result = {
        "name": "aggregation",
        "ours": round(mine, 3),
        "peer": round(flower, 3),
        "ratio": round(flower / mine, 2),
        "unit": "s for 100 updates of 4 M float32; peer: flwr's FedAvg aggregation; ratio is peer over ours",
        "goal": f"ratio >= {GOAL}",
        "holds": flower / mine >= GOAL,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
