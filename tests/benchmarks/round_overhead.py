"""What our round costs over Flower's own no-op round, with signatures, verification and both ledgers on.

    python -m tests.benchmarks.round_overhead [ROUNDS]

One SuperLink, two plain SuperNodes with Flower's own no-op ClientApp, and two sites with relay and daemon. One
ServerApp alternates: a no-op round over the plain nodes, then one of our rounds (zero steps, no evaluation) over the
sites. Both are looked for every 0.2 s and wait equally for Flower's 3 s polls. The last line is one JSON object;
seconds are medians.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from common.signing import SigningKey
from deploy.local_federation import environment, free_port
from server.config import load_federation_config
from server.flower_run import submit_and_follow
from server.run_directory import RunDirectory
from tests.e2e.federation import Federation, federation

APP = Path(__file__).parent / "round-app"
GOAL_S = 1.0


def main(rounds: int = 20) -> int:
    """Measure and print."""
    with federation() as running:
        for name in ("plain-1", "plain-2"):
            _start_plain_node(running, name)
        config = load_federation_config(running.settings(rounds=rounds))
        RunDirectory.create(running.directory, config, SigningKey.load(config.signing_key)).close()
        submit_and_follow(running.directory, f"127.0.0.1:{running.port}", None, lambda _: None, APP)
        records = [json.loads(line) for line in (running.directory / "metrics.jsonl").read_text().splitlines()[1:]]
        peers = json.loads((running.directory / "no_op_rounds.json").read_text())
    ours = [record["wall_s"] - peer for record, peer in zip(records, peers, strict=True)]
    for number, (mine, peer) in enumerate(zip(ours, peers, strict=True), 1):
        print(f"round {number:2d}: ours {mine:6.3f} s, Flower's no-op {peer:6.3f} s")
    mine, peer = statistics.median(ours), statistics.median(peers)
    result = {
        "name": "round_overhead",
        "ours": round(mine, 3),
        "peer": round(peer, 3),
        "ratio": round(mine / peer, 3),
        "unit": "s/round",
        "goal": f"ours - peer <= {GOAL_S}",
        "holds": mine - peer <= GOAL_S,
    }
    print(json.dumps(result))
    return 0


def _start_plain_node(running: Federation, name: str) -> None:
    command = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{running.port}", "--host", "127.0.0.1"]
    home = running.root / f"flwr-{name}"
    running.supervisor.start(name, [*command, "--port", str(free_port())], **environment(home))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
