"""The server's round loop: prescribe, collect, verify, aggregate, evaluate, gate, choose the next target.

Every step is recorded in the signed ledger and checkpointed in the run directory before the next one begins. A round
without enough valid releases is held: the standing adapter stays, and the loop goes on.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from common.adapter import Adapter, adapter_digest, decode_adapter, encode_adapter
from common.adapter_file import AdapterFile
from common.base_model import BaseModel
from common.canonical import Json, digest_bytes, digest_file
from common.errors import BatError, FederationError
from common.messages import Prescription, SelectionReason, SiteDescription, message_digest, sign_message
from common.signing import SigningKey, VerifyKey
from common.stages import Stage
from server.aggregation import AggregationError, RuleOptions, make_aggregator
from server.config import FederationConfig
from server.curriculum import POOL_ODDS, first_target, next_target
from server.evaluation import EvaluationSummary, cells_to_json
from server.gate import GateDecision, decide
from server.run_directory import RunDirectory, write_file, write_json
from server.transport import Transport
from server.verification import Reply, Verdict, verify_reply

__all__ = ["Evaluator", "RoundLoop"]

REJOIN_TIMEOUT_S = 10.0
"""How long sites that were lost in the last round are looked for before the next one."""


class Evaluator(Protocol):
    """Scores an adapter on the gate suite."""

    def evaluate(self, adapter: Adapter) -> EvaluationSummary:
        """All cells of the gate suite for one adapter, named by the digest of its encoded form."""


@dataclass(frozen=True)
class Standing:
    """The last promoted adapter.

    Args:
        data: its safetensors bytes.
        evaluation: its scores on the gate suite, `None` where evaluation is off.
    """

    data: bytes
    evaluation: EvaluationSummary | None


@dataclass(frozen=True)
class Collected:
    """What one round brought in.

    Args:
        used: site to the verdict on its release.
        absent: site to why nothing of it is used.
    """

    used: Mapping[str, Verdict]
    absent: Mapping[str, str]


class RoundLoop:
    """Runs one federation from the cold start to the last round.

    Args:
        config: the run's settings.
        directory: where the run is kept.
        transport: reaches the sites.
        key: the server's signing key.
        model: the base model.
        evaluator: scores adapters; `None` where evaluation is off.
    """

    def __init__(
        self,
        config: FederationConfig,
        directory: RunDirectory,
        transport: Transport,
        key: SigningKey,
        model: BaseModel,
        evaluator: Evaluator | None,
    ) -> None:
        self._config = config
        self._directory = directory
        self._transport = transport
        self._key = key
        self._model = model
        self._evaluator = evaluator
        self._keys = {site.name: VerifyKey.from_hex(site.public_key) for site in config.sites}
        self._standing = Standing(model.initial_adapter, None)
        self._promoted_round = 0
        self._lost = False

    def run(self) -> None:
        """Run all rounds.

        Raises:
            BatError: the run cannot go on; the ledger says why.
        """
        config = self._config
        self._log(
            "run_start",
            {
                "run": config.run,
                "seed": config.seed,
                "rounds": config.rounds,
                "settings": digest_file(self._directory.path / "config.toml"),
                "base_model": self._model.digest,
                "starting_adapter": adapter_digest(self._standing.data),
                "aggregation": config.aggregation,
                "sites": {site.name: site.public_key for site in config.sites},
            },
        )
        try:
            self._enrol()
            target, reason = self._cold_start()
            for number in range(1, config.rounds + 1):
                target, reason = self._round(number, target, reason)
        except BaseException as error:
            # On a full disk not even this can be written; the error itself matters more.
            with contextlib.suppress(BatError, OSError):
                self._end("failed", _reason(error))
            raise
        self._end("complete", "")

    def _enrol(self) -> None:
        self._step(0, "enrolling")
        found = self._transport.enrol(self._keys, self._config.enrolment_timeout_s)
        absent = {site: _unfit(found.get(site), self._model) for site in self._keys}
        absent = {site: why for site, why in absent.items() if why}
        self._log("enrolment", {"present": sorted(self._keys.keys() - absent.keys()), "absent": absent})
        present = len(self._keys) - len(absent)
        if present < self._config.quorum:
            first, why = next(iter(absent.items()))
            raise FederationError(
                f"only {present} of {len(self._keys)} sites can take part; {first} {why}",
                where=f"quorum {self._config.quorum}",
                remedy="Start the missing sites and run again.",
            )

    def _cold_start(self) -> tuple[Stage, SelectionReason]:
        started = time.monotonic()
        write_file(self._directory.path / "adapter.safetensors", self._standing.data)
        write_file(self._directory.round(0) / "candidate.safetensors", self._standing.data)
        target, reason = self._config.initial_target, SelectionReason.INITIAL
        if self._evaluator is not None:
            self._step(0, "evaluating")
            evaluation = self._evaluate(0, self._standing.data)
            self._standing = replace(self._standing, evaluation=evaluation)
            if target is None:
                target, reason = first_target(evaluation)
        if target is None:
            raise FederationError("no target stage for the first round", remedy="Set initial_target.")
        self._directory.metrics({"round": 0, **_scores(self._standing.evaluation), "wall_s": _since(started)})
        return target, reason

    def _round(self, number: int, target: Stage, reason: SelectionReason) -> tuple[Stage, SelectionReason]:
        started = time.monotonic()
        collected = self._collect(number, self._prescribe(number, target, reason))
        candidate = self._aggregate(number, collected)
        following = (target, reason)
        evaluation, decision, promoted = None, None, False
        if candidate is not None and self._evaluator is not None and self._standing.evaluation is not None:
            self._step(number, "evaluating", target)
            evaluation = self._evaluate(number, candidate)
            decision = self._gate(number, self._standing.evaluation, evaluation)
            promoted = decision.promoted
            following = next_target(decision, evaluation)
        elif candidate is not None:
            promoted = True
        if promoted and candidate is not None:
            self._standing = Standing(candidate, evaluation)
            self._promoted_round = number
            write_file(self._directory.path / "adapter.safetensors", candidate)
        self._directory.metrics(
            {
                "round": number,
                "target_stage": target,
                "selection_reason": reason,
                **_scores(evaluation),
                "gate": None if decision is None else decision.to_json(),
                "promoted": promoted,
                "releases": [
                    _release_record(number, site, verdict) for site, verdict in sorted(collected.used.items())
                ],
                "absent": dict(collected.absent),
                "wall_s": _since(started),
            }
        )
        self._step(number, "done", following[0])
        return following

    def _prescribe(self, number: int, target: Stage, reason: SelectionReason) -> dict[str, Prescription]:
        config, now = self._config, int(time.time())
        prescriptions = {
            site: Prescription(
                run=config.run,
                round=number,
                site=site,
                nonce=secrets.token_hex(32),
                target_stage=target,
                selection_reason=reason,
                pool_odds=POOL_ODDS,
                tracks=config.tracks,
                aggregation=config.aggregation,
                optimizer=config.optimizer,
                starting_adapter=adapter_digest(self._standing.data),
                base_model=self._model.digest,
                differential_privacy=False,
                issued_unix=now,
                deadline_unix=now + config.round_timeout_s,
            )
            for site in self._keys
        }
        self._log(
            "prescription",
            {
                "round": number,
                "target_stage": target,
                "selection_reason": reason,
                "starting_adapter": adapter_digest(self._standing.data),
                "sites": {site: message_digest(prescription) for site, prescription in prescriptions.items()},
            },
        )
        self._step(number, "training", target)
        return prescriptions

    def _collect(self, number: int, prescriptions: Mapping[str, Prescription]) -> Collected:
        folder = self._directory.round(number)
        signed = {site: sign_message(prescription, self._key) for site, prescription in prescriptions.items()}
        for site, data in signed.items():
            write_file(folder / "prescriptions" / f"{site}.json", data)
        if self._lost:
            self._transport.enrol(self._keys, REJOIN_TIMEOUT_S)
        used: dict[str, Verdict] = {}
        absent: dict[str, str] = {}
        self._lost = False
        for site, reply in self._transport.exchange(signed, self._standing.data, self._config.round_timeout_s):
            self._lost |= bool(reply.fault)
            verdict = verify_reply(
                reply, prescriptions[site], self._keys[site], self._model.spec, self._config.max_update_norm
            )
            if verdict.release is None:
                absent[site] = verdict.reason
                self._log("rejected", {"round": number, "site": site, "reason": verdict.reason})
            else:
                used[site] = verdict
                self._keep(number, site, reply, verdict)
        self._step(number, "collected")
        return Collected(used, absent)

    def _keep(self, number: int, site: str, reply: Reply, verdict: Verdict) -> None:
        folder = self._directory.round(number)
        write_file(folder / "releases" / f"{site}.json", reply.release)
        write_file(folder / "updates" / f"{site}.safetensors", reply.update)
        record = _release_record(number, site, verdict)
        self._log("release_received", {**record, "release": digest_bytes(reply.release), "norm": verdict.norm})

    def _aggregate(self, number: int, collected: Collected) -> bytes | None:
        """The candidate adapter, or `None` when the round is held."""
        folder = self._directory.round(number)
        try:
            if len(collected.used) < self._config.quorum:
                raise AggregationError(f"{len(collected.used)} valid releases, quorum is {self._config.quorum}")
            options = RuleOptions(round=number, **self._config.aggregation_options.model_dump())
            start = decode_adapter(self._standing.data, self._model.spec)
            rule = make_aggregator(self._config.aggregation, start, options)
            for site in self._config.sites:  # a fixed order, so that the sum does not depend on who was fastest
                if site.name in collected.used:
                    rule.add(AdapterFile(folder / "updates" / f"{site.name}.safetensors"), site.weight)
            candidate = encode_adapter(rule.finish())
        except AggregationError as error:
            self._log("round_held", {"round": number, "reason": str(error)})
            return None
        write_file(folder / "candidate.safetensors", candidate)
        for update_file in (folder / "updates").glob("*"):
            update_file.unlink()
        (folder / "updates").rmdir()
        self._log(
            "aggregate",
            {
                "round": number,
                "rule": self._config.aggregation,
                "sites": sorted(collected.used),
                "candidate": adapter_digest(candidate),
            },
        )
        self._step(number, "aggregated")
        return candidate

    def _evaluate(self, number: int, adapter: bytes) -> EvaluationSummary:
        if self._evaluator is None:
            raise FederationError("evaluation is off")
        evaluation = self._evaluator.evaluate(decode_adapter(adapter, self._model.spec))
        folder = self._directory.round(number)
        write_json(folder / "evaluation.json", evaluation.to_json())
        write_json(folder / "cells.json", cells_to_json(evaluation.cells))
        files: dict[str, Json] = {name: digest_file(folder / f"{name}.json") for name in ("evaluation", "cells")}
        self._log(
            "evaluation",
            {"round": number, "adapter": adapter_digest(adapter), **_scores(evaluation), "files": files},
        )
        return evaluation

    def _gate(self, number: int, baseline: EvaluationSummary, candidate: EvaluationSummary) -> GateDecision:
        decision = decide(baseline, candidate, healthy=True)
        path = self._directory.round(number) / "gate.json"
        write_json(path, decision.to_json())
        self._log("gate", {"round": number, **decision.to_json(), "files": {"gate": digest_file(path)}})
        return decision

    def _end(self, status: str, reason: str) -> None:
        standing = adapter_digest(self._standing.data)
        self._log("run_end", {"status": status, "reason": reason[:500], "adapter": standing})
        self._directory.checkpoint({"run": self._config.run, "step": status, "reason": reason[:500], **self._where()})

    def _step(self, number: int, step: str, target: Stage | None = None) -> None:
        self._directory.checkpoint(
            {"run": self._config.run, "round": number, "step": step, "target_stage": target, **self._where()}
        )

    def _where(self) -> dict[str, Json]:
        return {
            "rounds": self._config.rounds,
            "promoted_round": self._promoted_round,
            "adapter": adapter_digest(self._standing.data),
            "ledger_head": self._directory.ledger.head,
            "time_unix": round(time.time(), 3),
            "pid": os.getpid(),
        }

    def _log(self, kind: str, body: Mapping[str, Json]) -> None:
        self._directory.ledger.append(kind, dict(body))


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return "the run was stopped"
    return str(error) if isinstance(error, BatError) else f"{type(error).__name__}: {error}"


def _unfit(description: SiteDescription | None, model: BaseModel) -> str:
    if description is None:
        return "does not answer"
    if description.base_model != model.digest:
        return "has another base model"
    return ""


def _scores(evaluation: EvaluationSummary | None) -> dict[str, Json]:
    """Aggregate scores only: nothing of a single cell."""
    if evaluation is None:
        return {}
    return {
        "overall": evaluation.overall,
        "task": evaluation.task,
        "agentic": evaluation.agentic,
        "stages": {stage.value: score for stage, score in evaluation.stage_scores.items()},
        "tracks": dict(evaluation.track_scores),
    }


def _release_record(number: int, site: str, verdict: Verdict) -> dict[str, Json]:
    release = verdict.release
    return {
        "round": number,
        "site": site,
        "tensors": verdict.tensors,
        "bytes": release.update_bytes if release else 0,
        "digest": release.update if release else "",
    }


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
