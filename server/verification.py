"""Checks on what a site sent back, before anything of it is used."""

from __future__ import annotations

from dataclasses import dataclass

from common.adapter import AdapterSpec, decode_adapter, encode_adapter, l2_norm
from common.canonical import digest_bytes
from common.errors import AdapterError, SigningError
from common.factors import factor_of, frozen_factor
from common.messages import Prescription, Refusal, Release, message_digest, verify_message
from common.signing import VerifyKey

__all__ = ["Reply", "Verdict", "verify_reply"]


@dataclass(frozen=True)
class Reply:
    """What came from a site, unchecked.

    Args:
        release: a signed release, or empty.
        refusal: a signed refusal, or empty.
        update: safetensors bytes that came with the release.
        fault: why there is neither, in one word.
    """

    release: bytes = b""
    refusal: bytes = b""
    update: bytes = b""
    fault: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome of the checks.

    Args:
        release: the verified release, or `None` when the reply is not used.
        reason: why it is not used; empty when it is.
        tensors: number of tensors in the update.
        norm: Euclidean norm of the update.
    """

    release: Release | None
    reason: str = ""
    tensors: int = 0
    norm: float = 0.0


def verify_reply(
    reply: Reply, prescription: Prescription, key: VerifyKey, spec: AdapterSpec, max_norm: float
) -> Verdict:
    """Check a reply against the prescription it must answer.

    Args:
        reply: what came.
        prescription: what this site was sent in this round; its nonce is bound through its digest.
        key: the enrolled key of the site.
        spec: of the adapter whose update is expected.
        max_norm: largest accepted norm.

    Returns:
        A verdict; a bad reply is a reason, never an exception.
    """
    if reply.release:
        return _verify_release(reply, prescription, key, spec, max_norm)
    if not reply.refusal:
        return Verdict(None, reply.fault or "empty reply")
    try:
        refusal = verify_message(reply.refusal, Refusal, key)
    except SigningError:
        return Verdict(None, "refusal is not signed by the site")
    return Verdict(None, f"refused: {refusal.code.value}")


def _verify_release(
    reply: Reply, prescription: Prescription, key: VerifyKey, spec: AdapterSpec, max_norm: float
) -> Verdict:
    try:
        release = verify_message(reply.release, Release, key)
    except SigningError:
        return Verdict(None, "release is not signed by the site")
    expected = {
        "run": prescription.run,
        "round": prescription.round,
        "site": prescription.site,
        "prescription": message_digest(prescription),
        "base_model": prescription.base_model,
        "starting_adapter": prescription.starting_adapter,
        "adapter_spec": spec.digest,
        "update": digest_bytes(reply.update),
        "update_bytes": len(reply.update),
    }
    for name, value in expected.items():
        if getattr(release, name) != value:
            return Verdict(None, f"release has another {name.replace('_', ' ')}")
    try:
        update = decode_adapter(reply.update, spec.of_update)
    except AdapterError as error:
        return Verdict(None, f"update: {error}"[:200])
    if encode_adapter(update) != reply.update:
        return Verdict(None, "update holds bytes beside its tensors")
    frozen = frozen_factor(prescription.aggregation, prescription.round)
    if any(factor_of(name) == frozen and tensor.to_float32().any() for name, tensor in update.items() if frozen):
        return Verdict(None, f"update moves factor {frozen}, which this round leaves frozen")
    norm = l2_norm(update)
    if not norm <= max_norm:
        return Verdict(None, f"update norm {norm:.4g} is above {max_norm:.4g}")
    return Verdict(release, tensors=len(update), norm=norm)
