"""Canonical JSON and digests: the one byte form that is hashed and signed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

__all__ = ["Json", "canonical_json", "digest_bytes", "digest_file", "digest_json"]

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def canonical_json(value: Json) -> bytes:
    """Encode as UTF-8 JSON with sorted keys, no spaces and no NaN (the published digest form of BaT).

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_bytes(data: bytes) -> str:
    """SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Json) -> str:
    """SHA-256 of the canonical JSON form, as 64 hex digits."""
    return digest_bytes(canonical_json(value))


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks, as 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
