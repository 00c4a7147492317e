"""Signed messages: only what the right key signed, of the right kind and shape, is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from common.errors import SigningError
from common.messages import (
    RELEASE_SCHEMA,
    OptimizerSettings,
    Prescription,
    Refusal,
    RefusalCode,
    Release,
    SelectionReason,
    SiteDescription,
    sign_message,
    verify_message,
)
from common.signing import SigningKey
from common.stages import SourcePool, Stage, Track

KEY = SigningKey.generate()
DIGEST = "0" * 64


def prescription(**changes: Any) -> Prescription:
    fields: dict[str, Any] = {
        "run": "run-1",
        "round": 1,
        "site": "north",
        "nonce": DIGEST,
        "target_stage": Stage.PLAN,
        "selection_reason": SelectionReason.INITIAL,
        "pool_odds": {SourcePool.TARGET: 0.5, SourcePool.MIX: 0.25, SourcePool.E2E: 0.25},
        "tracks": (Track.SEGMENTATION,),
        "aggregation": "fedavg",
        "optimizer": OptimizerSettings(
            steps=2,
            groups_per_step=8,
            group_size=8,
            learning_rate=1e-3,
            kl_coefficient=0.006,
            temperature=1.0,
            max_turns=12,
            max_tokens=512,
        ),
        "starting_adapter": DIGEST,
        "base_model": DIGEST,
        "differential_privacy": False,
        "issued_unix": 1,
        "deadline_unix": 2,
    }
    return Prescription(**(fields | changes))


def test_a_signed_message_comes_back_equal() -> None:
    assert verify_message(sign_message(prescription(), KEY), Prescription, KEY.public) == prescription()


def test_the_same_message_has_the_same_bytes() -> None:
    assert sign_message(prescription(), KEY) == sign_message(prescription(), KEY)


@pytest.mark.parametrize(
    "data",
    [
        sign_message(prescription(), KEY).replace(b'"round":1', b'"round":2'),
        sign_message(prescription(), SigningKey.generate()),
        sign_message(Refusal(run="run-1", round=1, site="north", code=RefusalCode.POLICY), KEY),
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"kind": "Prescription", "body": {}, "signature": "00" * 64}).encode(),
    ],
)
def test_everything_else_is_refused(data: bytes) -> None:
    with pytest.raises(SigningError):
        verify_message(data, Prescription, KEY.public)


def test_a_signed_body_with_an_unknown_field_is_refused() -> None:
    signed = {"kind": "Refusal", "body": {"run": "r", "round": 1, "site": "s", "code": "policy", "note": "hello"}}
    data = json.dumps(signed | {"signature": KEY.sign_json(signed)}).encode()
    with pytest.raises(SigningError, match="not a signed Refusal"):
        verify_message(data, Refusal, KEY.public)


@pytest.mark.parametrize("message", [Release, Refusal, SiteDescription])
def test_every_field_that_may_leave_is_classified(message: type[Release | Refusal | SiteDescription]) -> None:
    assert set(RELEASE_SCHEMA[message]) == set(message.model_fields)


def test_every_message_type_of_a_site_is_in_the_schema() -> None:
    assert set(RELEASE_SCHEMA) == {Release, Refusal, SiteDescription}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "a" * 65, "a b"])
def test_names_that_would_be_unsafe_as_a_file_name_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="run"):
        prescription(run=name)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b" " * 1000,
        lambda data: b'{"body":{"smuggled":"text"},' + data[1:],
        lambda data: data[:-1] + b',"kind":"Refusal"}',
        lambda data: data.replace(b'"signature":"', b'"signature":"  '),
        lambda data: data.replace(b"busy", b"b\\u0075sy"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.decode().encode("utf-16"),
    ],
)
def test_a_carrier_can_add_nothing_to_a_signed_message(change: Callable[[bytes], bytes]) -> None:
    signed = sign_message(Refusal(run="run-1", round=1, site="north", code=RefusalCode.BUSY), KEY)
    changed = change(signed)
    assert changed != signed
    with pytest.raises(SigningError):
        verify_message(changed, Refusal, KEY.public)
