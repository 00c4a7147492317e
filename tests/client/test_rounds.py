"""What a site does with a prescription: every reason to refuse, one answer a round, nothing said beyond it."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from client.airlock import Outgoing
from client.rounds import RoundJob
from common.adapter import RawTensor, decode_adapter, encode_adapter
from common.canonical import digest_bytes
from common.errors import DataError, LedgerError
from common.messages import Refusal, RefusalCode, Release, message_digest, verify_message
from common.signing import SigningKey
from common.stages import Stage, Track


def refusal(site, answer: Outgoing | None) -> Refusal:
    assert isinstance(answer, Outgoing)
    assert answer.update == b""
    return verify_message(answer.message, Refusal, site.key.public)


def test_the_update_is_trained_minus_start_and_signed(site) -> None:
    prescription = site.prescription()
    outgoing = site.outcome(prescription)
    release = verify_message(outgoing.message, Release, site.key.public)
    assert (release.run, release.round, release.site) == ("demo", 1, "north")
    assert release.prescription == message_digest(prescription)
    assert release.update == digest_bytes(outgoing.update)
    update = decode_adapter(outgoing.update, site.model.spec.of_update)
    assert all(np.allclose(tensor.to_float32(), 0.5, atol=1e-6) for tensor in update.values())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"site": "south"}, RefusalCode.WRONG_SITE),
        ({"base_model": "2" * 64}, RefusalCode.WRONG_BASE_MODEL),
        ({"starting_adapter": "3" * 64}, RefusalCode.BAD_ADAPTER),
        ({"deadline_unix": 1_000}, RefusalCode.EXPIRED),
        ({"issued_unix": int(time.time()) + 86_400}, RefusalCode.EXPIRED),
        ({"tracks": (Track.VQA,)}, RefusalCode.POLICY),
        ({"aggregation": "krum"}, RefusalCode.POLICY),
        ({"differential_privacy": True}, RefusalCode.POLICY),
    ],
)
def test_what_must_be_refused_is_refused_with_its_code(site, changes: dict[str, object], code: RefusalCode) -> None:
    answer = refusal(site, site.begin(site.prescription(**changes)))
    assert answer.code is code
    assert site.learner.rounds == 0
    event = site.events("prescription_refused")[-1]
    assert event.body["code"] == code
    assert not site.events("prescription_accepted")


def test_a_stage_outside_the_policy_is_refused_and_the_reason_stays_inside(site) -> None:
    site.policy = site.policy.model_copy(update={"stages": (Stage.SUBMIT,)})
    site.open()
    answer = site.begin(site.prescription())
    assert refusal(site, answer).code is RefusalCode.POLICY
    assert b"stage" not in answer.message
    assert "policy.stages" in site.events("prescription_refused")[0].body["reason"]


def test_a_foreign_signature_and_noise_are_refused(site) -> None:
    foreign = site.begin(site.prescription(), key=SigningKey.generate())
    assert refusal(site, foreign) == Refusal(run="unknown", round=0, site="north", code=RefusalCode.BAD_SIGNATURE)
    for noise in (b"", b"{}", b"\x00" * 100, b"[" * 50_000):
        assert refusal(site, site.desk.begin(noise, b"")).code is RefusalCode.BAD_SIGNATURE


def test_an_adapter_of_another_shape_is_refused(site) -> None:
    other = encode_adapter({"a": RawTensor("F32", (1,), b"\0" * 4)})
    answer = site.begin(site.prescription(starting_adapter=digest_bytes(other)), adapter=other)
    assert refusal(site, answer).code is RefusalCode.BAD_ADAPTER


def test_asking_again_gives_the_same_bytes_also_after_a_restart(site) -> None:
    prescription = site.prescription()
    first = site.outcome(prescription)
    assert site.begin(prescription) == first
    site.open()
    assert site.begin(prescription) == first
    assert site.airlock.again("demo", 1) == first
    assert site.learner.rounds == 1
    assert len(site.events("release")) == 1


def test_another_prescription_for_an_answered_round_is_a_replay(site) -> None:
    site.outcome(site.prescription())
    assert refusal(site, site.begin(site.prescription(nonce="4" * 64))).code is RefusalCode.REPLAYED


def test_a_used_nonce_is_a_replay_after_a_restart_in_the_middle_of_a_round(site) -> None:
    site.learner.held = threading.Event()
    assert isinstance(site.begin(site.prescription()), RoundJob)
    site.desk.stop(5.0)
    site.open()
    site.learner.held = None
    assert refusal(site, site.begin(site.prescription())).code is RefusalCode.REPLAYED
    fresh = site.outcome(site.prescription(nonce="5" * 64))
    assert verify_message(fresh.message, Release, site.key.public).round == 1


def test_one_round_at_a_time_and_the_same_one_joins(site) -> None:
    site.learner.held = threading.Event()
    job = site.begin(site.prescription())
    assert site.begin(site.prescription()) is job
    assert refusal(site, site.begin(site.prescription(round=2, nonce="6" * 64))).code is RefusalCode.BUSY
    site.learner.held.set()
    assert verify_message(job.wait(5.0).message, Release, site.key.public)


def test_a_cancelled_round_says_so_and_its_round_can_be_prescribed_anew(site) -> None:
    site.learner.held = threading.Event()
    job = site.begin(site.prescription())
    assert not site.desk.cancel("demo", 2)
    assert site.desk.cancel("demo", 1)
    assert refusal(site, job.wait(5.0)).code is RefusalCode.CANCELLED
    site.learner.held = None
    assert verify_message(site.outcome(site.prescription(nonce="7" * 64)).message, Release, site.key.public)


@pytest.mark.parametrize("failure", [ValueError("patient Quillfeather"), DataError("patient Quillfeather")])
def test_a_failed_round_says_one_word_outside_and_the_reason_inside(site, failure: Exception) -> None:
    site.learner.failure = failure
    outgoing = site.outcome(site.prescription())
    assert refusal(site, outgoing).code is RefusalCode.INTERNAL
    assert b"Quill" not in outgoing.message
    assert "Quillfeather" in site.events("round_failed")[0].body["reason"]


def test_progress_stays_in_the_site(site) -> None:
    outgoing = site.outcome(site.prescription())
    assert any(record.get("reward_mean") == 0.123456 for record in site.progress)
    assert b"123456" not in outgoing.message


def test_the_ledger_knows_of_a_release_before_anyone_else_does(site) -> None:
    kinds_at_release = []
    release = site.airlock.release

    def watched(message, *arguments):
        outgoing = release(message, *arguments)
        kinds_at_release.append([event.body["update"] for event in site.events("release")])
        return outgoing

    site.airlock.release = watched
    outgoing = site.outcome(site.prescription())
    assert kinds_at_release == [[digest_bytes(outgoing.update)]]


def test_what_cannot_be_recorded_does_not_leave(site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(kind: str, body: object) -> None:
        raise LedgerError("cannot write the ledger: No space left on device")

    site.learner.held = threading.Event()
    job = site.begin(site.prescription())
    monkeypatch.setattr(site.ledger, "append", full)
    site.learner.held.set()
    assert job.wait(5.0) == Outgoing(b"")
    assert site.airlock.again("demo", 1) is None
