"""`bat-server`: what the consortium's engineer types."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common.errors import BatError
from common.files import writing

__all__ = ["main"]

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 on a reported error, 2 on wrong usage."""
    arguments = _parser().parse_args(argv)
    run: Command = arguments.run_command
    try:
        return run(arguments)
    except BatError as error:
        print(f"bat-server: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered has no reader
        return 1
    except KeyboardInterrupt:
        print("bat-server: interrupted", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bat-server", description="Run a federation of hospitals that train one agent, and look at what came out."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = _add(commands, "run", _run, "run a federation to its end (the SuperLink and the sites must be up)")
    run.add_argument("settings", type=Path, metavar="FEDERATION.toml", help="the federation's settings")
    run.add_argument("--runs", type=Path, default=Path("runs"), help="folder of run directories (default: runs)")
    run.add_argument("--superlink", default="127.0.0.1:8000", metavar="HOST:PORT", help="default: 127.0.0.1:8000")
    run.add_argument("--root-certificates", type=Path, metavar="PEM", help="use TLS and trust these")

    run.add_argument("--aggregation", metavar="RULE", help="use this aggregation rule instead of the settings' own")

    key = _add(commands, "key", _key, "print the server's public key for the sites, making the key if there is none")
    key.add_argument("file", type=Path, metavar="KEY")

    cold = _add(commands, "cold-start", _cold_start, "train the base policy from public demonstrations")
    cold.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="new folder for the policy")
    cold.add_argument("--seed", type=int, default=1, help="default: 1")
    cold.add_argument(
        "--demonstrations", type=int, default=1200, metavar="N", help="demonstrations to train on (default: 1200)"
    )
    _add_tracks(cold)

    evaluate = _add(commands, "eval", _evaluate, "score an adapter on a suite of a run (JSON)")
    evaluate.add_argument("run", type=Path, metavar="RUN", help="run directory")
    evaluate.add_argument("--adapter", type=Path, metavar="FILE", help="default: the run's standing adapter")
    evaluate.add_argument(
        "--suite",
        choices=("gate", "sealed"),
        default="sealed",
        help="gate (used between rounds) or sealed (kept for the end; the default)",
    )

    gate = _add(
        commands,
        "gate",
        _gate,
        "compare two bat_eval_summary files, or evaluations with their cells: promotion gate and prescription (JSON)",
    )
    gate.add_argument("--baseline", type=Path, metavar="FILE", help="summary of the checkpoint that stands")
    gate.add_argument("--candidate", type=Path, metavar="FILE", help="summary of the one that wants to replace it")
    gate.add_argument("--unhealthy", action="store_true", help="training did not go well: the gate holds")
    gate.add_argument(
        "--jsonl",
        action="store_true",
        help="read {baseline, candidate, healthy} lines from standard input instead, and answer each with a line",
    )

    suites = _add(
        commands,
        "suites",
        _suites,
        "build both held-out suites, and what the oracle and the best fixed script earn on them, ahead of a run",
    )
    suites.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="new folder for both suites")
    suites.add_argument("--seed", type=int, default=1, help="default: 1")
    suites.add_argument("--cells", type=int, default=16, metavar="N", help="tasks of each track (default: 16)")
    _add_tracks(suites)

    prints = _add(commands, "fingerprints", _fingerprints, "fingerprint the held-out suites for the sites, signed")
    prints.add_argument("suites", type=Path, metavar="FOLDER", help="what `bat-server suites` built")
    prints.add_argument("--key", type=Path, required=True, help="the server's signing key")
    prints.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON file to give to the sites")

    sealed = _add(commands, "sealed", _sealed, "score a finished run on the sealed suite, once and for the report")
    sealed.add_argument("run", type=Path, metavar="RUN", help="run directory")

    score = _add(commands, "score", _score, "grade any agent's run directory against a reference (JSON)")
    score.add_argument("run", type=Path, metavar="RUN_DIR", help="plan/, agents_outputs/<case>/, process/")
    score.add_argument("--layout", choices=("automedbench",), default="automedbench", help="default: automedbench")
    score.add_argument("--reference", type=Path, required=True, metavar="DIR", help="one folder a case with the truth")
    score.add_argument(
        "--task",
        required=True,
        choices=("segmentation", "enhancement", "detection", "vqa", "report"),
        help="what was asked",
    )
    score.add_argument(
        "--tier",
        choices=("standard", "lite"),
        default="standard",
        help="lite: method and plan picture were given to the agent (default: standard)",
    )

    report = _add(commands, "report", _report, "write report.html of a run, however far it came")
    report.add_argument("run", type=Path, metavar="RUN", help="run directory")
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Command, text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run_command=run)
    return command


def _add_tracks(command: argparse.ArgumentParser) -> None:
    from common.stages import Track
    from server.config import DEFAULT_TRACKS

    shown = " ".join(DEFAULT_TRACKS)
    command.add_argument(
        "--tracks",
        nargs="+",
        type=Track,
        choices=tuple(Track),
        default=DEFAULT_TRACKS,
        metavar="TRACK",
        help=f"task families (default: {shown})",
    )


def _score(arguments: argparse.Namespace) -> int:
    import json

    from server.automedbench import Tier, score_run

    result = score_run(arguments.run, arguments.reference, arguments.task, Tier(arguments.tier))
    print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from common.signing import SigningKey
    from server.config import load_federation_config
    from server.flower_run import submit_and_follow
    from server.run_directory import RunDirectory

    changes = {"aggregation": arguments.aggregation} if arguments.aggregation else {}
    config = load_federation_config(arguments.settings, changes)
    directory = arguments.runs / config.run
    RunDirectory.create(directory, config, SigningKey.load_or_create(config.signing_key)).close()
    state = submit_and_follow(directory, arguments.superlink, arguments.root_certificates, _say)
    if state["step"] == "complete":
        return 0
    print(f"bat-server: {state.get('reason', 'the run failed')}", file=sys.stderr)
    return 1


def _say(state: dict[str, Any]) -> None:
    if state.get("step") in ("complete", "failed"):
        print(f"run {state['step']}", flush=True)
    elif state:
        stage = f", target {state['target_stage']}" if state.get("target_stage") else ""
        print(f"round {state.get('round', '-')} of {state['rounds']}: {state['step']}{stage}", flush=True)


def _key(arguments: argparse.Namespace) -> int:
    from common.signing import SigningKey

    print(SigningKey.load_or_create(arguments.file).public.hex)
    return 0


def _cold_start(arguments: argparse.Namespace) -> int:
    from common.signing import SigningKey
    from server.cold_start import cold_start
    from stage_bank.demonstrations import demonstrations
    from stage_bank.images import public_images
    from stage_bank.toolkit import open_toolkit_sandbox

    def progress(step: int, loss: float) -> None:
        if step % 20 == 0:
            print(f"cold start: step {step}, loss {loss:.3f}", flush=True)

    sandbox = open_toolkit_sandbox(SigningKey.generate())
    try:
        pictures = [image.picture for image in public_images("demonstrations")]
        shown = list(
            demonstrations(
                pictures, sandbox, count=arguments.demonstrations, seed=arguments.seed, tracks=arguments.tracks
            )
        )
    finally:
        sandbox.close()
    print(f"cold start: {len(shown)} demonstrations", flush=True)
    print(cold_start(arguments.out, shown, arguments.seed, progress=progress))
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    import json

    from common.adapter import decode_adapter
    from common.errors import ConfigurationError
    from common.signing import SigningKey
    from server.config import load_federation_config
    from server.gate_evaluator import GateEvaluator

    config = load_federation_config(arguments.run / "config.toml")
    path = arguments.adapter or arguments.run / "adapter.safetensors"
    try:
        adapter = decode_adapter(path.read_bytes())
    except OSError as error:
        raise ConfigurationError("cannot read the adapter", where=str(path), remedy=f"{error.strerror}.") from error
    evaluator = GateEvaluator(config, arguments.run, SigningKey.generate(), arguments.suite)
    try:
        evaluation = evaluator.evaluate(adapter)
    finally:
        evaluator.close()
    summary = {key: value for key, value in evaluation.to_json().items() if key != "cells"}
    print(json.dumps({"suite": arguments.suite, **summary}, indent=1))
    return 0


def _gate(arguments: argparse.Namespace) -> int:
    from common.errors import ConfigurationError
    from server.gate_command import gate_files, gate_lines

    files = [file for file in (arguments.baseline, arguments.candidate) if file is not None]
    if arguments.jsonl:
        if files or arguments.unhealthy:
            raise ConfigurationError("--jsonl reads everything from standard input", remedy="Give no other option.")
        gate_lines(sys.stdin.buffer, sys.stdout)
        return 0
    if len(files) != 2:
        raise ConfigurationError("the gate compares two summaries", remedy="Give --baseline and --candidate.")
    print(gate_files(arguments.baseline, arguments.candidate, healthy=not arguments.unhealthy))
    return 0


def _suites(arguments: argparse.Namespace) -> int:
    from server.sealed import prepare_suites

    prepare_suites(arguments.out, arguments.tracks, arguments.cells, arguments.seed)
    print(arguments.out)
    return 0


def _fingerprints(arguments: argparse.Namespace) -> int:
    from common.signing import SigningKey
    from server.fingerprints import suite_fingerprints

    signed = suite_fingerprints(arguments.suites, SigningKey.load(arguments.key))
    with writing("the fingerprints", arguments.out):
        arguments.out.write_bytes(signed)
    print(arguments.out)
    return 0


def _sealed(arguments: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from server.sealed import score_sealed

    print(json.dumps(asdict(score_sealed(arguments.run)), indent=1))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from server.report import write_report

    print(write_report(arguments.run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
