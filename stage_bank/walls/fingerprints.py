"""The server's keyed fingerprints of its held-out suites: what a site may know of them to keep them out of its bank.

A fingerprint holds truncated HMAC-SHA-256 values of perceptual bands and word shingles, under a key that is fixed when
a site enrols. Others learn nothing from it without the key. A site holds the key and could try all values of a band, so
it can learn the coarse hash of a held-out picture, but not the picture. The set is signed by the server; the site pins
it. Matches stay inside the site: no message has a field for them.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from common.canonical import Json, canonical_json
from common.errors import SigningError
from common.signing import SigningKey, VerifyKey
from stage_bank.walls.perceptual import BANDS, bands, variants
from stage_bank.walls.shingles import shingles

__all__ = ["FingerprintSet", "fingerprint_suites", "read_fingerprints", "sign_fingerprints"]

SCHEMA_VERSION = 1
KEY_BYTES = 32
_HEX = 8
"""Hex digits kept of each HMAC: 32 bits, so that a chance match of one is far rarer than of a band itself."""

ENOUGH_BANDS = 7
"""Bands of 20 that must agree; measured by `tests/benchmarks/isolation.py`."""

ENOUGH_SHINGLES = 0.5
"""Share of a held-out text's shingles, or of the site's own, that must agree."""

FEWEST_SHINGLES = 3
"""A text with fewer is too short to tell."""

Picture = npt.NDArray[np.floating]


@dataclass(frozen=True)
class FingerprintSet:
    """Fingerprints of both suites.

    Args:
        key: 32 bytes, fixed at enrolment.
        pictures: for each picture its 16 forms, each the keyed bands in order.
        texts: for each text its keyed shingles, boilerplate left out.
    """

    key: bytes
    pictures: tuple[tuple[tuple[str, ...], ...], ...]
    texts: tuple[frozenset[str], ...]

    def matches_picture(self, pixels: Picture) -> bool:
        """Whether a picture is a held-out one, perhaps resized, flipped, turned, re-windowed, inverted or noisy."""
        own = np.array(_keyed_bands(self.key, bands(pixels)))
        return bool(((self._forms == own).sum(axis=1) >= ENOUGH_BANDS).any())

    @cached_property
    def _forms(self) -> npt.NDArray[np.str_]:
        """All forms of all pictures, one a row."""
        forms = [form for forms in self.pictures for form in forms]
        return np.array(forms, dtype=f"U{_HEX}").reshape(len(forms), BANDS)

    def matches_text(self, text: str) -> bool:
        """Whether a text repeats a held-out one in other letters, white space or numbers."""
        own = _keyed_shingles(self.key, shingles(text))
        return any(
            len(own & other) >= ENOUGH_SHINGLES * min(len(own), len(other))
            for other in self.texts
            if min(len(own), len(other)) >= FEWEST_SHINGLES
        )


def fingerprint_suites(
    key: bytes, pictures: Iterable[Picture], texts: Iterable[str], boilerplate: Iterable[str] = ()
) -> FingerprintSet:
    """Fingerprint held-out content.

    Args:
        key: 32 random bytes.
        pictures: `[rows, columns]` each: sources and cases.
        texts: free texts of the tasks.
        boilerplate: texts that every state may hold, such as prompts and templates; their shingles are left out.

    Raises:
        ValueError: the key has another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a fingerprint key has {KEY_BYTES} bytes")
    common = frozenset(shingle for text in boilerplate for shingle in shingles(text))
    hashed = {tuple(_keyed_bands(key, form) for form in variants(picture)) for picture in pictures}
    marked = {_keyed_shingles(key, shingles(text) - common) for text in texts}
    return FingerprintSet(key, tuple(sorted(hashed)), tuple(sorted(filter(None, marked), key=sorted)))


def sign_fingerprints(prints: FingerprintSet, key: SigningKey) -> bytes:
    """The signed set as JSON."""
    body: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "heldout_fingerprints",
        "key": prints.key.hex(),
        "pictures": [[list(form) for form in forms] for forms in prints.pictures],
        "texts": [sorted(marks) for marks in prints.texts],
    }
    return canonical_json({"body": body, "signature": key.sign_json(body)})


def read_fingerprints(data: bytes, signer: VerifyKey) -> FingerprintSet:
    """Read and check a signed set.

    Raises:
        SigningError: malformed, of another version, or not signed by `signer`.
    """
    try:
        envelope = json.loads(data)
        body = envelope["body"]
        signer.verify_json(body, envelope["signature"])
        if (body["schema_version"], body["kind"]) != (SCHEMA_VERSION, "heldout_fingerprints"):
            raise ValueError("another version")
        return FingerprintSet(
            bytes.fromhex(body["key"]),
            tuple(tuple(tuple(form) for form in forms) for forms in body["pictures"]),
            tuple(frozenset(marks) for marks in body["texts"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SigningError("not a signed set of held-out fingerprints") from error


def _keyed_bands(key: bytes, form: Sequence[int]) -> tuple[str, ...]:
    return tuple(_keyed(key, b"band\0%d\0%d" % (place, band)) for place, band in enumerate(form))


def _keyed_shingles(key: bytes, texts: Iterable[str]) -> frozenset[str]:
    return frozenset(_keyed(key, b"shingle\0" + text.encode()) for text in texts)


def _keyed(key: bytes, message: bytes) -> str:
    return hmac.digest(key, message, sha256).hex()[:_HEX]
