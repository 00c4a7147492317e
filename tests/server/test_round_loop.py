"""The round loop against sites that answer in every wrong way, with real keys and a transport in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from common.adapter import Adapter, RawTensor, adapter_digest, decode_adapter, encode_adapter
from common.audit import verify_folder
from common.audit_cli import main as audit
from common.base_model import BaseModel, read_base_model
from common.canonical import digest_bytes
from common.errors import FederationError, LedgerError
from common.ledger import Event, read_ledger
from common.messages import (
    Prescription,
    Refusal,
    RefusalCode,
    Release,
    SiteDescription,
    message_digest,
    sign_message,
    verify_message,
)
from common.run_record import check_releases
from common.signing import SigningKey, VerifyKey
from common.stages import STAGES, Stage, Track
from server.config import FederationConfig, load_federation_config
from server.evaluation import Cell, EvaluationSummary, summarise
from server.round_loop import RoundLoop
from server.run_directory import RunDirectory
from server.verification import Reply
from tests.e2e.federation import tiny_model

Answer = Callable[["Sites", Prescription, bytes], Reply]


@dataclass
class Sites:
    """Sites in memory: each answers with a function."""

    model: BaseModel
    server: VerifyKey
    answers: dict[str, Answer]
    keys: dict[str, SigningKey] = field(default_factory=dict)
    seen: list[Prescription] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = {name: SigningKey.generate() for name in self.answers}

    def enrol(self, keys: Mapping[str, VerifyKey], timeout_s: float) -> dict[str, SiteDescription]:
        return {
            name: SiteDescription(
                site=name, public_key=key.hex, base_model=self.model.digest, tracks=tuple(Track), software="test"
            )
            for name, key in keys.items()
            if name in self.answers
        }

    def exchange(
        self, prescriptions: Mapping[str, bytes], adapter: bytes, timeout_s: float
    ) -> Iterator[tuple[str, Reply]]:
        for site, signed in prescriptions.items():
            prescription = verify_message(signed, Prescription, self.server)
            assert digest_bytes(adapter) == prescription.starting_adapter
            self.seen.append(prescription)
            yield site, self.answers[site](self, prescription, adapter)

    def release(self, prescription: Prescription, update: bytes, /, **changes: object) -> Release:
        fields = {
            "run": prescription.run,
            "round": prescription.round,
            "site": prescription.site,
            "prescription": message_digest(prescription),
            "base_model": prescription.base_model,
            "starting_adapter": prescription.starting_adapter,
            "adapter_spec": self.model.spec.digest,
            "update": digest_bytes(update),
            "update_bytes": len(update),
            "epsilon": None,
            **changes,
        }
        return Release.model_validate(fields)


def constant(model: BaseModel, value: float) -> bytes:
    return encode_adapter(
        {n: RawTensor.from_array(np.full(shape, value, np.float32)) for n, (_, shape) in model.spec.tensors.items()}
    )


def sends(value: float) -> Answer:
    """A good answer whose update is `value` everywhere."""

    def answer(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
        update = constant(sites.model, value)
        return Reply(sign_message(sites.release(prescription, update), sites.keys[prescription.site]), b"", update)

    return answer


def lies(**changes: object) -> Answer:
    """A signed release with a wrong field."""

    def answer(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
        update = constant(sites.model, 0.0)
        release = sites.release(prescription, update, **changes)
        return Reply(sign_message(release, sites.keys[prescription.site]), b"", update)

    return answer


def forged(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
    update = constant(sites.model, 0.0)
    return Reply(sign_message(sites.release(prescription, update), SigningKey.generate()), b"", update)


def swapped(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
    good = sends(0.0)(sites, prescription, adapter)
    return Reply(good.release, b"", constant(sites.model, 9.0))


def refuses(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
    refusal = Refusal(run=prescription.run, round=prescription.round, site=prescription.site, code=RefusalCode.POLICY)
    return Reply(b"", sign_message(refusal, sites.keys[prescription.site]))


def replays(sites: Sites, prescription: Prescription, adapter: bytes) -> Reply:
    """The release of the first round, again."""
    first = next(one for one in sites.seen if one.site == prescription.site)
    return sends(1.0)(sites, first, adapter)


@dataclass
class Scores:
    """Evaluates an adapter to a fixed function of its first value."""

    score: Callable[[float], dict[Stage, float]]
    model: BaseModel

    def evaluate(self, adapter: Adapter) -> EvaluationSummary:
        start = decode_adapter(self.model.initial_adapter)
        name = next(iter(sorted(adapter)))
        moved = float((adapter[name].to_float32() - start[name].to_float32()).mean())
        stages = self.score(moved)
        cells = [Cell(Track.ENHANCEMENT, f"task-{n}", 0, sum(stages.values()) / 5, stages) for n in range(3)]
        return summarise(cells, adapter_digest(encode_adapter(adapter)))


class Run:
    """One run directory and what is in it."""

    def __init__(
        self,
        root: Path,
        answers: dict[str, Answer],
        score: Callable[[float], dict[Stage, float]] | None,
        **changes: object,
    ) -> None:
        self.model = read_base_model(tiny_model(root / "model"))
        self.key = SigningKey.load_or_create(root / "server.key")
        self.sites = Sites(self.model, self.key.public, answers)
        enrolled = changes.pop("enrolled", None) or answers
        self.config = FederationConfig.model_validate(
            {
                "run": "test",
                "rounds": 1,
                "model": root / "model",
                "signing_key": root / "server.key",
                "sites": tuple(
                    {"name": name, "public_key": self.sites.keys.get(name, SigningKey.generate()).public.hex}
                    for name in enrolled
                ),
                "optimizer": {
                    "steps": 0,
                    "groups_per_step": 1,
                    "group_size": 2,
                    "learning_rate": 1e-3,
                    "kl_coefficient": 0.0,
                    "temperature": 1.0,
                    "max_turns": 4,
                    "max_tokens": 256,
                },
                "initial_target": Stage.INFER if score is None else None,
                "evaluation": {"enabled": score is not None},
                **changes,
            }
        )
        self.path = root / "runs" / "test"
        directory = RunDirectory.create(self.path, self.config, self.key)
        evaluator = None if score is None else Scores(score, self.model)
        self.loop = RoundLoop(self.config, directory, self.sites, self.key, self.model, evaluator)
        try:
            self.loop.run()
        finally:
            directory.close()

    @property
    def metrics(self) -> list[dict]:
        return [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]

    def events(self, kind: str) -> list[Event]:
        return [event for event in read_ledger(self.path / "ledger.jsonl") if event.kind == kind]

    @property
    def moved(self) -> float:
        """How far the standing adapter is from the start."""
        standing = decode_adapter((self.path / "adapter.safetensors").read_bytes())
        start = decode_adapter(self.model.initial_adapter)
        return float(np.mean([(standing[n].to_float32() - start[n].to_float32()).mean() for n in standing]))


def flat(value: float) -> dict[Stage, float]:
    return dict.fromkeys(STAGES, value)


def test_good_updates_are_averaged_by_public_weights(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": sends(1.0), "b": sends(3.0)}, None)
    assert run.moved == pytest.approx(2.0, abs=1e-5)
    assert run.metrics[1]["promoted"]
    assert not (run.path / "rounds" / "1" / "updates").exists()
    assert json.loads((run.path / "state.json").read_text())["step"] == "complete"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (forged, "not signed by the site"),
        (swapped, "another update"),
        (refuses, "refused: policy"),
        (lies(round=2), "another round"),
        (lies(run="other"), "another run"),
        (lies(prescription="9" * 64), "another prescription"),
        (lies(base_model="9" * 64), "another base model"),
        (lies(site="a"), "another site"),
        (sends(1e9), "norm"),
        (sends(float("nan")), "NaN or infinity"),
        (lambda sites, prescription, adapter: Reply(fault="no answer before the deadline"), "no answer"),
        (lambda sites, prescription, adapter: Reply(), "empty reply"),
        (lambda sites, prescription, adapter: Reply(b"{}", b"", b""), "not signed"),
    ],
)
def test_a_bad_reply_is_left_out_with_its_reason_and_the_round_goes_on(
    tmp_path: Path, answer: Answer, reason: str
) -> None:
    run = Run(tmp_path, {"a": sends(1.0), "b": answer}, None)
    assert reason in run.metrics[1]["absent"]["b"]
    assert run.moved == pytest.approx(1.0, abs=1e-5)
    assert [event.body["site"] for event in run.events("rejected")] == ["b"]
    assert [release["site"] for release in run.metrics[1]["releases"]] == ["a"]


def test_a_release_of_an_earlier_round_is_not_taken_for_this_one(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": sends(1.0), "b": replays}, None, rounds=2)
    assert "b" not in run.metrics[1]["absent"]
    assert "another" in run.metrics[2]["absent"]["b"]
    nonces = [prescription.nonce for prescription in run.sites.seen]
    assert len(set(nonces)) == 4


@pytest.mark.parametrize("answers", [{"a": forged, "b": refuses}, {"a": sends(1.0), "b": refuses}])
def test_too_few_valid_releases_hold_the_round(tmp_path: Path, answers: dict[str, Answer]) -> None:
    run = Run(tmp_path, answers, None, quorum=2, rounds=2)
    assert [record["promoted"] for record in run.metrics[1:]] == [False, False]
    assert "quorum" in run.events("round_held")[0].body["reason"]
    assert run.moved == 0.0
    assert len(run.events("run_end")) == 1


def test_weights_of_zero_hold_the_round(tmp_path: Path) -> None:
    key = SigningKey.generate()
    sites = ({"name": "a", "public_key": key.public.hex, "weight": 0.0},)
    run = _with_key(tmp_path, key, sites)
    assert "weight above zero" in run.events("round_held")[0].body["reason"]
    assert run.moved == 0.0


def _with_key(root: Path, key: SigningKey, sites: tuple[dict, ...]) -> Run:
    def answer(held: Sites, prescription: Prescription, adapter: bytes) -> Reply:
        update = constant(held.model, 1.0)
        return Reply(sign_message(held.release(prescription, update), key), b"", update)

    return Run(root, {"a": answer}, None, sites=sites)


def test_a_better_candidate_is_promoted_and_its_weakest_stage_is_next(tmp_path: Path) -> None:
    def score(moved: float) -> dict[Stage, float]:
        return {**flat(min(1.0, 0.5 + moved / 10)), (Stage.SETUP if moved > 0.5 else Stage.SUBMIT): 0.2}

    run = Run(tmp_path, {"a": sends(1.0)}, score, rounds=2)
    assert [prescription.target_stage for prescription in run.sites.seen] == [Stage.SUBMIT, Stage.SETUP]
    assert run.metrics[1]["gate"]["promoted"]
    assert run.metrics[0]["overall"] < run.metrics[1]["overall"]
    assert (run.path / "rounds" / "1" / "gate.json").exists()


def test_a_worse_candidate_is_held_and_what_fell_most_is_next(tmp_path: Path) -> None:
    def score(moved: float) -> dict[Stage, float]:
        return {**flat(0.8), Stage.VALIDATE: 0.7 - 0.3 * (moved > 0.5), Stage.PLAN: 0.6}

    run = Run(tmp_path, {"a": sends(1.0)}, score, rounds=2)
    assert [prescription.target_stage for prescription in run.sites.seen] == [Stage.PLAN, Stage.VALIDATE]
    assert not run.metrics[1]["promoted"]
    assert run.moved == 0.0
    assert run.sites.seen[1].starting_adapter == adapter_digest(run.model.initial_adapter)


def test_nothing_of_a_single_held_out_task_reaches_ledger_metrics_or_prescription(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": sends(1.0)}, lambda moved: flat(0.5))
    crossing = (run.path / "metrics.jsonl").read_bytes() + (run.path / "ledger.jsonl").read_bytes()
    crossing += b"".join(prescription.model_dump_json().encode() for prescription in run.sites.seen)
    assert b"task-" not in crossing


def test_a_federation_without_enough_sites_ends_at_once_and_says_who_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="1 of 2 sites can take part; ghost does not answer"):
        Run(tmp_path, {"a": sends(1.0)}, None, quorum=2, enrolled=["a", "ghost"])
    state = json.loads((tmp_path / "runs" / "test" / "state.json").read_text())
    assert (state["step"], "ghost" in state["reason"]) == ("failed", True)


def test_the_record_of_a_run_can_be_checked_by_itself_and_shows_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, {"a": sends(1.0), "b": sends(2.0)}, lambda moved: flat(0.5), rounds=2)
    key = VerifyKey.from_hex((run.path / "server.pub").read_text())
    assert "as expected" in verify_folder(run.path, key)
    assert audit(["verify", str(run.path), "--key", key.hex, "--head", run.events("gate")[0].digest]) == 0
    assert audit(["show", str(run.path)]) == 0
    assert "run_end" in capsys.readouterr().out
    assert audit(["verify", str(run.path), "--key", SigningKey.generate().public.hex]) == 1
    assert audit(["verify", str(run.path), "--head", "1" * 64]) == 1
    assert audit(["verify", str(tmp_path / "none")]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 3

    candidate = run.path / "rounds" / "1" / "candidate.safetensors"
    original = candidate.read_bytes()
    candidate.write_bytes(original[:-1] + b"\x01")
    with pytest.raises(LedgerError, match="changed"):
        verify_folder(run.path, key)
    candidate.write_bytes(original)
    verify_folder(run.path, key)
    ledger = run.path / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:3] + lines[4:]))
    with pytest.raises(LedgerError):
        verify_folder(run.path, key)


def test_settings_are_kept_and_read_back_and_a_run_is_not_overwritten(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": sends(1.0)}, None)
    assert load_federation_config(run.path / "config.toml") == run.config
    with pytest.raises(Exception, match="there is a run already"):
        RunDirectory.create(run.path, run.config, run.key)


FORGERIES = {
    "a score": ("metrics.jsonl", lambda data: data.replace(b'"overall": 0.5', b'"overall": 0.9', 1)),
    "a line less": ("metrics.jsonl", lambda data: data[: data.rstrip().rfind(b"\n") + 1]),
    "a line more": ("metrics.jsonl", lambda data: data + b'{"round": 9}\n'),
    "an evaluation": ("rounds/1/evaluation.json", lambda data: data.replace(b"0.5", b"0.9")),
    "cells": ("rounds/1/cells.json", lambda data: b"[]"),
    "a gate": ("rounds/1/gate.json", lambda data: data + b" "),
    "a release": ("rounds/1/releases/a.json", lambda data: data.replace(b'"a"', b'"b"')),
    "a sealed result": ("sealed.json", lambda data: b'{"cold_start": 0.1, "final": 1.0}'),
}


@pytest.mark.parametrize(("file", "forge"), FORGERIES.values(), ids=FORGERIES)
def test_figures_that_the_ledger_does_not_bear_are_found(
    tmp_path: Path, file: str, forge: Callable[[bytes], bytes]
) -> None:
    run = Run(tmp_path, {"a": sends(1.0)}, lambda moved: flat(0.5), rounds=1)
    verify_folder(run.path)
    path = run.path / file
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(forge(before))
    assert path.read_bytes() != before
    with pytest.raises(LedgerError):
        verify_folder(run.path)


def test_a_release_of_another_hand_is_found_although_the_server_s_ledger_names_it(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": sends(1.0)}, None, rounds=1)
    start = run.events("run_start")[0]
    foreign = replace(start, body={**start.body, "sites": {"a": SigningKey.generate().public.hex}})
    with pytest.raises(LedgerError, match="not signed by its site"):
        check_releases(run.path, [foreign, *run.events("release_received")])
