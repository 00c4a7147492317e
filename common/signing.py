"""Ed25519 keys on disk and signatures over canonical JSON (RFC 8032)."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from common.canonical import Json, canonical_json
from common.errors import SigningError

__all__ = ["SigningKey", "VerifyKey"]

_SIGNATURE = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True)
class VerifyKey:
    """The public half of an Ed25519 key.

    Args:
        raw: the 32 raw public bytes.
    """

    raw: bytes

    @property
    def hex(self) -> str:
        """The key as 64 hex digits: how it is written in configuration and ledgers."""
        return self.raw.hex()

    @classmethod
    def from_hex(cls, text: str) -> VerifyKey:
        """Read a key written as 64 hex digits.

        Raises:
            SigningError: the text is not 32 bytes of hex.
        """
        try:
            raw = bytes.fromhex(text.strip())
        except ValueError:
            raw = b""
        if len(raw) != 32:
            raise SigningError("not an Ed25519 public key", where=text[:80], remedy="Give 64 hex digits.")
        return cls(raw)

    def verify(self, message: bytes, signature_hex: str) -> None:
        """Check a signature over raw bytes.

        Raises:
            SigningError: the signature is malformed or does not belong to these bytes and this key.
        """
        try:
            if _SIGNATURE.fullmatch(signature_hex) is None:
                raise ValueError("not 128 hex digits")
            Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes.fromhex(signature_hex), message)
        except (InvalidSignature, ValueError) as error:
            raise SigningError("signature does not verify", where=f"key {self.hex[:16]}…") from error

    def verify_json(self, value: Json, signature_hex: str) -> None:
        """Check a signature over the canonical JSON of `value`.

        Raises:
            SigningError: as for `verify`.
        """
        self.verify(canonical_json(value), signature_hex)


class SigningKey:
    """An Ed25519 private key; never leaves its owner's file."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = VerifyKey(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a fresh key from the operating system's entropy."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Read a key file written by `save`.

        Raises:
            SigningError: the file is missing, readable by others, or not a raw Ed25519 key.
        """
        try:
            mode = path.stat().st_mode
            raw = path.read_bytes()
        except OSError as error:
            raise SigningError("cannot read the signing key", where=str(path), remedy=str(error.strerror)) from error
        if stat.S_IMODE(mode) & 0o077:
            raise SigningError("signing key is readable by others", where=str(path), remedy="Run chmod 600 on it.")
        if len(raw) != 32:
            raise SigningError("not a raw Ed25519 key of 32 bytes", where=str(path))
        return cls(Ed25519PrivateKey.from_private_bytes(raw))

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """Read the key at `path`, making it with mode 0600 when there is none yet."""
        if not path.exists():
            cls.generate().save(path)
        return cls.load(path)

    def save(self, path: Path) -> None:
        """Write the raw key, mode 0600, refusing to overwrite.

        Raises:
            SigningError: a file is already there.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = self._private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise SigningError("a key is already there", where=str(path), remedy="Move it away first.") from error
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())

    def sign(self, message: bytes) -> str:
        """Sign raw bytes; the signature is 128 hex digits."""
        return self._private.sign(message).hex()

    def sign_json(self, value: Json) -> str:
        """Sign the canonical JSON of `value`; the signature is 128 hex digits."""
        return self.sign(canonical_json(value))
