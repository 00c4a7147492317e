"""Warm `execute` in the sandbox against a cold start of the same interpreter with the same imports.

Run it with `python -m tests.benchmarks.sandbox_exec`; the last line is one JSON object. Warm and cold runs are
interleaved, so that both meet the same load of the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from common.sandbox import Language, Sandbox, open_sandbox
from common.signing import SigningKey

IMPORTS = ("numpy", "scipy.ndimage", "scipy.signal", "skimage.filters", "skimage.metrics", "nibabel", "pydicom")
PROGRAM = "import numpy as np\nprint(np.ones((8, 8)).sum())"
GOAL = "ratio <= 0.05 and ours <= 15 ms"
ROUNDS, WARM_A_ROUND, SESSIONS = 7, 8, 64


def milliseconds(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3


def cold() -> float:
    code = f"import {', '.join(IMPORTS)}\n{PROGRAM}"
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return milliseconds(begin)


def workspaces(sandbox: Sandbox) -> dict[str, float]:
    """Cost of opening, of a toolkit command, and of 64 rollouts at once."""
    files = {f"cases/{number}/image.npy": bytes(10_000) for number in range(15)}
    opening = []
    for _ in range(15):
        begin = time.perf_counter()
        session = sandbox.open(files)
        opening.append(milliseconds(begin))
        session.close()
    sessions = [sandbox.open(files) for _ in range(SESSIONS)]
    begin = time.perf_counter()
    with ThreadPoolExecutor(SESSIONS) as pool:
        receipts = list(pool.map(lambda session: session.execute(Language.PYTHON, PROGRAM), sessions))
    together = milliseconds(begin)
    worker = max(psutil.Process().children(recursive=True), key=lambda process: process.memory_info().rss)
    used = {"worker_mib": worker.memory_info().rss / 2**20, "failed": sum(not each.succeeded for each in receipts)}
    for session in sessions:
        session.close()
    return {"open_ms": statistics.median(opening), f"{SESSIONS}_at_once_ms": together, **used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto", help="bwrap, landlock or auto")
    backend = parser.parse_args().backend
    toolkit = Path(__file__).parents[2] / "stage_bank" / "skills"
    sandbox = open_sandbox(
        SigningKey.generate(),
        warm_commands={"bat": "stage_bank.skills.cli:main"},
        warm_paths=[toolkit],
        preload=IMPORTS,
        backend=backend,
    )
    try:
        session = sandbox.open({})
        warm, peer = [], []
        for _ in range(ROUNDS):
            peer.append(cold())
            for _ in range(WARM_A_ROUND):
                begin = time.perf_counter()
                receipt = session.execute(Language.PYTHON, PROGRAM)
                warm.append(milliseconds(begin))
                assert receipt.output == "64.0\n", receipt
        print(f"backend {sandbox.name}", {name: round(value, 2) for name, value in workspaces(sandbox).items()})
    finally:
        sandbox.close()
    ours, theirs = statistics.median(warm), statistics.median(peer)
    ratio = ours / theirs
    result = {"name": "sandbox_exec", "ours": round(ours, 2), "peer": round(theirs, 1), "ratio": round(ratio, 4)}
    print(json.dumps({**result, "unit": "ms", "goal": GOAL, "holds": ratio <= 0.05 and ours <= 15}))


if __name__ == "__main__":
    main()
