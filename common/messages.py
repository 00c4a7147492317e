"""The messages between server and sites, and the one schema of what may leave a site.

Server to site travels a signed `Prescription` plus an adapter as safetensors bytes; site to server a signed `Release`
(or a `Refusal`) plus an adapter update. Every field of the two site messages is classified in `RELEASE_SCHEMA`; the
airlock refuses to send anything that is not listed there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from common.canonical import Json, canonical_json, digest_json
from common.errors import SigningError
from common.signing import SigningKey, VerifyKey
from common.stages import SourcePool, Stage, Track

__all__ = [
    "PROTOCOL_VERSION",
    "RELEASE_SCHEMA",
    "Leaves",
    "OptimizerSettings",
    "Prescription",
    "Refusal",
    "RefusalCode",
    "Release",
    "SelectionReason",
    "SiteDescription",
    "message_digest",
    "sign_message",
    "verify_message",
]

PROTOCOL_VERSION = 1

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 in lower-case hex."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A run or site name: safe as a file name and in a log line."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SelectionReason(StrEnum):
    """Why the curriculum chose its target stage."""

    INITIAL = "initial"
    LOWEST_CANDIDATE_STAGE = "lowest_candidate_stage"
    LARGEST_POSITIVE_REGRESSION = "largest_positive_regression"


class OptimizerSettings(_Message):
    """How a site trains in one round. Fixed before the round, never computed from data."""

    steps: int = Field(ge=0, le=10_000)
    """GRPO optimizer steps; 0 releases the received adapter unchanged."""
    groups_per_step: int = Field(ge=1, le=1024)
    """States sampled a step."""
    group_size: int = Field(ge=2, le=64)
    """Rollouts of each state (G)."""
    learning_rate: float = Field(gt=0, le=1)
    kl_coefficient: float = Field(ge=0, le=10)
    """Weight of the KL term in the loss, against the policy that started the round."""
    temperature: float = Field(gt=0, le=10)
    max_turns: int = Field(ge=1, le=64)
    max_tokens: int = Field(ge=16, le=65_536)
    """Longest rollout in tokens, prompt included."""


class Prescription(_Message):
    """The curriculum of one round for one site, signed by the server."""

    protocol_version: Literal[1] = 1
    run: Name
    round: int = Field(ge=1, le=100_000)
    """From 1."""
    site: Name
    """The only site that may act on it."""
    nonce: Digest
    """Fresh for every prescription: a replayed one is recognised."""
    target_stage: Stage
    selection_reason: SelectionReason
    pool_odds: Mapping[SourcePool, float]
    """Share of target-stage, mixed-stage and end-to-end states; sums to 1."""
    tracks: tuple[Track, ...]
    aggregation: Name
    optimizer: OptimizerSettings
    starting_adapter: Digest
    base_model: Digest
    differential_privacy: bool
    issued_unix: int
    deadline_unix: int
    """After this second the site's release is not waited for any more."""


class Release(_Message):
    """What a site sends back once a round: a description and the digest of its adapter update."""

    protocol_version: Literal[1] = 1
    run: Name
    round: int = Field(ge=1)
    site: Name
    prescription: Digest
    """Digest of the prescription it answers."""
    base_model: Digest
    starting_adapter: Digest
    adapter_spec: Digest
    update: Digest
    """Digest of the safetensors bytes sent with it (trained adapter minus starting adapter)."""
    update_bytes: int = Field(ge=0)
    epsilon: float | None
    """Total privacy loss of the site's bank after this release, or `None` where differential privacy is off."""


class RefusalCode(StrEnum):
    """Why a site does not take part, in words that do not depend on patient data."""

    BAD_SIGNATURE = "bad_signature"
    REPLAYED = "replayed"
    WRONG_SITE = "wrong_site"
    WRONG_BASE_MODEL = "wrong_base_model"
    BAD_ADAPTER = "bad_adapter"
    POLICY = "policy"
    EXPIRED = "expired"
    BUSY = "busy"
    NOT_READY = "not_ready"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class Refusal(_Message):
    """A typed no."""

    protocol_version: Literal[1] = 1
    run: Name
    round: int = Field(ge=0)
    site: Name
    code: RefusalCode


class SiteDescription(_Message):
    """What a site says of itself when asked: constants of its installation and policy."""

    protocol_version: Literal[1] = 1
    site: Name
    public_key: Digest
    base_model: Digest
    tracks: tuple[Track, ...]
    software: str = Field(max_length=64)


class Leaves(StrEnum):
    """How a field of a leaving message relates to patient data."""

    CONSTANT = "constant"
    """Independent of patient data."""
    NOISED = "noised"
    """Depends on it only through the accounted mechanism (or, without DP, is the update itself)."""
    FORBIDDEN_WITH_DP = "forbidden_with_dp"
    """Depends on it without accounting; may leave only where the site switched DP off."""


RELEASE_SCHEMA: Mapping[type[BaseModel], Mapping[str, Leaves]] = {
    Release: {
        "protocol_version": Leaves.CONSTANT,
        "run": Leaves.CONSTANT,
        "round": Leaves.CONSTANT,
        "site": Leaves.CONSTANT,
        "prescription": Leaves.CONSTANT,
        "base_model": Leaves.CONSTANT,
        "starting_adapter": Leaves.CONSTANT,
        "adapter_spec": Leaves.CONSTANT,
        "update": Leaves.NOISED,
        "update_bytes": Leaves.CONSTANT,
        "epsilon": Leaves.CONSTANT,
    },
    Refusal: dict.fromkeys(("protocol_version", "run", "round", "site", "code"), Leaves.CONSTANT),
    SiteDescription: dict.fromkeys(
        ("protocol_version", "site", "public_key", "base_model", "tracks", "software"), Leaves.CONSTANT
    ),
}
"""Every message type that may leave a site, with every field of it. A test holds the two equal."""


_M = TypeVar("_M", bound=_Message)


def sign_message(message: _Message, key: SigningKey) -> bytes:
    """Encode a message with its signature as canonical JSON; the same message and key give the same bytes."""
    signed: dict[str, Json] = {"kind": type(message).__name__, "body": message.model_dump(mode="json")}
    return canonical_json({**signed, "signature": key.sign_json(signed)})


def verify_message(data: bytes, expected: type[_M], signer: VerifyKey) -> _M:
    """Parse and check a signed message.

    Args:
        data: what `sign_message` made, byte for byte: who carries it can add nothing and change nothing.
        expected: the message type that must be inside.
        signer: the key that must have signed it.

    Raises:
        SigningError: malformed, of another kind, of another protocol version, or not signed by `signer`.
    """
    try:
        envelope = json.loads(data)
        signature = envelope.pop("signature")
        if set(envelope) != {"kind", "body"} or envelope["kind"] != expected.__name__:
            raise ValueError(f"expected a {expected.__name__}")
        signer.verify_json(envelope, signature)
        if canonical_json({**envelope, "signature": signature}) != data:
            raise ValueError("not in the one form in which it is signed")
        return expected.model_validate_json(canonical_json(envelope["body"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SigningError(f"not a signed {expected.__name__}", where=str(error).splitlines()[0][:160]) from error


def message_digest(message: _Message) -> str:
    """SHA-256 of a message's canonical JSON: how a release names the prescription it answers."""
    return digest_json(message.model_dump(mode="json"))
