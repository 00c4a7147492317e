"""How fast the federation learns: three sites, federated averaging and the gate in one process, without the network.

    python tests/benchmarks/learning_curve.py --work FOLDER [--seeds 1 2 3] [--rounds 3] [--steps 20] ...

Policy, suites and banks are made once in FOLDER and reused. Sites are trained one after the other on one thread. The
last line is one JSON object: sealed-suite overall of the last promoted adapter against the cold start.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from client.bank_builder import fill_bank
from client.site_config import BankSettings, ServerTrust, SiteConfig
from client.trainer import train_round
from common.adapter import Adapter, RawTensor
from common.messages import OptimizerSettings
from common.policy import Policy, load_policy, zero_adapter
from common.sandbox import Sandbox
from common.signing import SigningKey
from common.stages import SourcePool
from deploy.sample_sites import make
from rubrics.replay import Replayer
from server.aggregation.fedavg import FedAvg
from server.cold_start import ColdStartSettings, cold_start
from server.config import DEFAULT_TRACKS
from server.curriculum import first_target, next_target
from server.evaluation import EvaluationSummary
from server.gate import decide
from server.heldout import HeldoutSuite, build_suite, load_suite
from server.heldout_evaluation import SuiteRunner
from stage_bank.demonstrations import Demonstration, demonstrations
from stage_bank.environment import StageEnvironment
from stage_bank.images import Split, public_images
from stage_bank.materialise import materialise
from stage_bank.prompts import user_prompt
from stage_bank.store import BankRow, StageBank
from stage_bank.toolkit import open_toolkit_sandbox

GOAL = 1.3


def prepare(options: argparse.Namespace, sandbox: Sandbox) -> tuple[Policy, dict[Split, HeldoutSuite], list[StageBank]]:
    """Make, or find made, everything a run starts from."""
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    policy = work / f"policy-{options.cold_steps}-{options.demonstrations}"
    if not policy.exists():
        cold_start(policy, shown(work, options.demonstrations, sandbox), 1, ColdStartSettings(steps=options.cold_steps))
        print((work / f"{policy.name}.cold_start.json").read_text(), flush=True)
    return (
        load_policy(policy),
        {"gate": suite("gate", work, sandbox), "sealed": suite("sealed", work, sandbox)},
        list(banks(work, options.states, sandbox)),
    )


def shown(work: Path, count: int, sandbox: Sandbox) -> Sequence[Demonstration]:
    """The demonstrations."""
    file = work / f"demonstrations-{count}.pickle"
    if not file.exists():
        images = [image.picture for image in public_images("demonstrations")]
        made = demonstrations(images, sandbox, count=count, seed=1, tracks=DEFAULT_TRACKS)
        file.write_bytes(pickle.dumps(list(made)))
    found: Sequence[Demonstration] = pickle.loads(file.read_bytes())
    return found


def suite(name: Split, work: Path, sandbox: Sandbox) -> HeldoutSuite:
    """A held-out suite."""
    file = work / f"{name}.jsonl"
    if not file.exists():
        build_suite(name, sandbox, tracks=DEFAULT_TRACKS, cells_per_track=16, seed=1).save(file)
    return load_suite(file)


def banks(work: Path, states: int, sandbox: Sandbox) -> Iterator[StageBank]:
    """One bank a site."""
    folders = make(work / "dicom") if not (work / "dicom").exists() else {p.name: p for p in (work / "dicom").iterdir()}
    for name, folder in sorted(folders.items()):
        config = SiteConfig(
            site=name,
            data=folder,
            state=work / f"sites-{states}" / name,
            model=work,
            server=ServerTrust(public_key="0" * 64),
            bank=BankSettings(states=states),
        )
        if not config.bank_folder.exists():
            config.state.mkdir(parents=True, exist_ok=True)
            fill_bank(config, sandbox, lambda _: None)
        yield StageBank.open(config.bank_folder, config.open_vault())


def _rows(bank: StageBank) -> Sequence[BankRow]:
    latest = bank.latest_snapshot()
    assert latest is not None
    return latest.rows


def difference(new: Adapter, old: Adapter) -> dict[str, RawTensor]:
    """New minus old."""
    return {name: RawTensor.from_array(new[name].to_float32() - old[name].to_float32()) for name in new}


def line(name: str, summary: EvaluationSummary) -> str:
    """One evaluation on one line."""
    stages = " ".join(f"{stage.value} {score:.2f}" for stage, score in summary.stage_scores.items())
    tracks = " ".join(f"{track[:3]} {score:.2f}" for track, score in summary.track_scores.items())
    return f"{name}: overall {summary.overall:.3f} task {summary.task:.3f} | {stages} | {tracks}"


def learn(
    options: argparse.Namespace,
    seed: int,
    policy: Policy,
    runners: dict[Split, SuiteRunner],
    site_banks: Sequence[StageBank],
    sandbox: Sandbox,
) -> tuple[float, float, float]:
    """One federation; returns sealed overall before and after, and processor seconds spent in training."""
    adapter: Adapter = zero_adapter(policy, 1)
    standing = runners["gate"].policy(policy, adapter)
    before = runners["sealed"].policy(policy, adapter)
    print(line(f"seed {seed} cold gate", standing), line("sealed", before), sep="\n", flush=True)
    target, _ = first_target(standing)
    odds = dict(zip((SourcePool.TARGET, SourcePool.MIX, SourcePool.E2E), options.odds, strict=True))
    settings = OptimizerSettings(
        steps=options.steps,
        groups_per_step=options.groups,
        group_size=options.group_size,
        learning_rate=options.learning_rate,
        kl_coefficient=options.kl,
        temperature=options.temperature,
        max_turns=24,
        max_tokens=1024,
    )
    spent = 0.0
    for number in range(1, options.rounds + 1):
        average = FedAvg(adapter)
        started = time.monotonic()
        for site, bank in enumerate(site_banks):
            rng = np.random.default_rng([seed, number, site])
            groups = materialise(
                _rows(bank),
                round_id=f"{seed}/{number}/{site}",
                target_stage=target,
                tracks=DEFAULT_TRACKS,
                batches=settings.steps,
                batch_rows=settings.groups_per_step,
                pool_odds=odds,
            )
            rows = [
                {"state_id": g.source.state_id, "prompt": user_prompt(g.source.track, g.source.focus)} for g in groups
            ]
            factory = partial(StageEnvironment, bank.state, sandbox, Replayer(sandbox))
            figures: list[dict[str, float]] = []
            trained = train_round(
                policy,
                adapter,
                factory,
                rows,
                settings,
                int(rng.integers(2**31)),
                figures.append,
            )
            average.add(difference(trained, adapter), 1.0)
            course = [(round(f["reward_mean"], 2), round(f["kl"], 3), round(f["seconds"], 1)) for f in figures]
            print(
                f"  site {site} tokens {figures[-1]['mean_tokens']:.0f} {course[:: max(1, len(course) // 6)]}",
                flush=True,
            )
        spent += time.monotonic() - started
        candidate = average.finish()
        evaluation = runners["gate"].policy(policy, candidate)
        decision = decide(standing, evaluation, healthy=True)
        print(line(f"round {number} target {target.value} promoted {decision.promoted} gate", evaluation), flush=True)
        target, _ = next_target(decision, evaluation)
        if decision.promoted:
            adapter, standing = candidate, evaluation
    after = runners["sealed"].policy(policy, adapter)
    print(line("final sealed", after), f"training {spent:.0f} s", sep="\n", flush=True)
    return before.overall, after.overall, spent


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--kl", type=float, default=0.006)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--odds", type=float, nargs=3, default=[0.5, 0.25, 0.25], help="target, mix, e2e")
    parser.add_argument("--states", type=int, default=126)
    parser.add_argument("--cold-steps", type=int, default=400)
    parser.add_argument("--demonstrations", type=int, default=1200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        policy, suites, site_banks = prepare(options, sandbox)
        runners: dict[Split, SuiteRunner] = {name: SuiteRunner(one, sandbox) for name, one in suites.items()}
        results = [learn(options, seed, policy, runners, site_banks, sandbox) for seed in options.seeds]
    finally:
        sandbox.close()
    before = float(np.mean([one[0] for one in results]))
    after = float(np.mean([one[1] for one in results]))
    smallest = min(end / start for start, end, _ in results)
    print(
        json.dumps(
            {
                "name": "learning_curve",
                "ours": round(after, 4),
                "peer": round(before, 4),
                "ratio": round(smallest, 3),
                "unit": "sealed overall, smallest ratio over seeds",
                "goal": GOAL,
                "holds": smallest >= GOAL,
            }
        )
    )


if __name__ == "__main__":
    main()
