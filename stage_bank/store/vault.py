"""The bank's key and its envelopes: AES-256-GCM with a random nonce, bound to the name of what they hold."""

from __future__ import annotations

import hmac
import os
import stat
import subprocess
import zlib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.errors import BankError
from common.files import write_durably

__all__ = ["Vault", "read_key"]

_MAGIC = b"BATV\x01"
_NONCE_BYTES = 12
_KEY_BYTES = 32
_MAX_PLAIN_BYTES = 256 << 20


class Vault:
    """Seals and opens bytes under one site key. Two sub-keys are derived (RFC 5869): one encrypts, one authenticates.

    Args:
        key: 32 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        derived = HKDF(SHA256(), 2 * _KEY_BYTES, salt=None, info=b"stage bank 1").derive(key)
        self._cipher = AESGCM(derived[:_KEY_BYTES])
        self._mac_key = derived[_KEY_BYTES:]

    @classmethod
    def load(cls, key_file: Path, *, create: bool = False) -> Vault:
        """Read the key file; make it first, with mode 0600, when `create` is set and there is none.

        Raises:
            BankError: missing, readable by others, or not 32 bytes.
        """
        return cls(read_key("the bank's key", key_file, create=create))

    @classmethod
    def from_command(cls, command: Sequence[str]) -> Vault:
        """Run a program, without a shell, that prints the key as 64 hex digits: a hospital's secret store.

        Raises:
            BankError: it cannot be run, fails, takes longer than half a minute, or prints no key.
        """
        try:
            done = subprocess.run(list(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True)
            key = bytes.fromhex(done.stdout.decode("ascii").strip())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            # Neither the error's text nor the output is passed on: both may hold the key.
            raise BankError(
                f"the key command failed: {type(error).__name__}", where=command[0], remedy="Run it by hand."
            ) from None
        if len(key) != _KEY_BYTES:
            raise BankError("the key command printed no key of 64 hex digits", where=command[0])
        return cls(key)

    def seal(self, name: str, plain: bytes) -> bytes:
        """Compress and encrypt; the envelope opens under the same `name` only."""
        nonce = os.urandom(_NONCE_BYTES)
        return _MAGIC + nonce + self._cipher.encrypt(nonce, zlib.compress(plain, 1), _bound(name))

    def open(self, name: str, envelope: bytes) -> bytes:
        """Decrypt and decompress.

        Raises:
            BankError: another key, another name, or changed bytes.
        """
        nonce, body = envelope[len(_MAGIC) :][:_NONCE_BYTES], envelope[len(_MAGIC) + _NONCE_BYTES :]
        try:
            if not envelope.startswith(_MAGIC):
                raise ValueError("unknown envelope")
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(self._cipher.decrypt(nonce, body, _bound(name)), _MAX_PLAIN_BYTES)
            if not unpacker.eof:
                raise ValueError("longer than any state")
        except (InvalidTag, ValueError, zlib.error) as error:
            raise BankError(
                "encrypted with another key, or changed",
                where=name,
                remedy="Check the key file, or build the bank again.",
            ) from error
        return plain

    def authenticate(self, message: bytes) -> str:
        """HMAC-SHA-256 under the bank's second sub-key, 64 hex digits."""
        return hmac.new(self._mac_key, message, sha256).hexdigest()


def read_key(name: str, file: Path, *, create: bool = False) -> bytes:
    """The 32 bytes of a key file; made first, with mode 0600, when `create` is set and there is none.

    Args:
        name: what the key is, for messages.
        file: where it lies.
        create: make a missing one.

    Raises:
        BankError: missing, readable by others, or not 32 bytes.
    """
    try:
        if create and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_durably(file, os.urandom(_KEY_BYTES))
        mode, key = file.stat().st_mode, file.read_bytes()
    except OSError as error:
        raise BankError(
            f"cannot read {name}: {error.strerror}", where=str(file), remedy="Restore it from backup."
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise BankError(f"{name} is readable by others", where=str(file), remedy="Run chmod 600 on it.")
    if len(key) != _KEY_BYTES:
        raise BankError(f"{name} does not have 32 bytes", where=str(file), remedy="Restore it from backup.")
    return key


def _bound(name: str) -> bytes:
    return b"stage bank\0" + name.encode()
