"""Keys on disk: owner only, never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import SigningError
from common.signing import SigningKey, VerifyKey


def test_a_saved_key_signs_as_before_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = SigningKey.load_or_create(tmp_path / "keys" / "site.key")
    again = SigningKey.load_or_create(tmp_path / "keys" / "site.key")
    again.public.verify(b"text", key.sign(b"text"))
    assert (tmp_path / "keys" / "site.key").stat().st_mode & 0o777 == 0o600


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    SigningKey.generate().save(tmp_path / "k")
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(SigningError, match="chmod 600"):
        SigningKey.load(tmp_path / "k")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    SigningKey.generate().save(tmp_path / "k")
    with pytest.raises(SigningError, match="already there"):
        SigningKey.generate().save(tmp_path / "k")


def test_missing_and_malformed_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(SigningError, match="cannot read"):
        SigningKey.load(tmp_path / "none")
    with pytest.raises(SigningError, match="64 hex digits"):
        VerifyKey.from_hex("zz")


@pytest.mark.parametrize("signature", ["", "00", "zz", "00" * 64])
def test_a_wrong_signature_does_not_verify(signature: str) -> None:
    with pytest.raises(SigningError, match="does not verify"):
        SigningKey.generate().public.verify(b"text", signature)
