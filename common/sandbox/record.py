"""The sealed record of one rollout: a chain of signed receipts between a signed opening and a signed closing.

The opening binds the chain to one rollout (a random id), to the backend and to the files at reset; every later link
holds the digest of the one before it; the closing holds how many there are, the last one's digest and the files at the
end. So nothing can be edited, dropped, repeated, reordered, taken over from another rollout or cut off at either end.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from common.canonical import Json, canonical_json, digest_json
from common.errors import SigningError
from common.sandbox.receipt import STRICT, Execution, Receipt
from common.signing import SigningKey, VerifyKey

__all__ = ["Closing", "Opening", "Record", "Recorder"]


@dataclass(frozen=True)
class Opening:
    """The first link.

    Args:
        rollout: the rollout's random id, 64 hex digits.
        backend: what confined the executions.
        files: SHA-256 of the canonical JSON of path to SHA-256 of every workspace file at reset.
        signature: Ed25519 over the canonical JSON of all fields but itself, 128 hex digits.
    """

    rollout: str
    backend: str
    files: str
    signature: str

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def signed_part(self) -> dict[str, Json]:
        """The fields that are signed."""
        return {"link": "opening", "rollout": self.rollout, "backend": self.backend, "files": self.files}

    @property
    def digest(self) -> str:
        """SHA-256 over the signed part and the signature; what the next link points at."""
        return digest_json({**self.signed_part(), "signature": self.signature})


@dataclass(frozen=True)
class Closing:
    """The last link.

    Args:
        count: receipts of the rollout.
        head: digest of the last receipt, or of the opening where nothing was executed.
        files: as in the opening, at the end.
        signature: Ed25519 over the canonical JSON of all fields but itself, 128 hex digits.
    """

    count: int
    head: str
    files: str
    signature: str

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def signed_part(self) -> dict[str, Json]:
        """The fields that are signed."""
        return {"link": "closing", "count": self.count, "head": self.head, "files": self.files}


@dataclass(frozen=True)
class Record:
    """Everything the sandbox recorded of one rollout, from reset to seal."""

    opening: Opening
    receipts: tuple[Receipt, ...]
    closing: Closing

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def verify(self, key: VerifyKey, *, rollout: str | None = None) -> None:
        """Check every signature, the chain, and that it is whole.

        Args:
            key: of the sandbox.
            rollout: id of the rollout that it must be of; `None` accepts any that `key` opened.

        Raises:
            SigningError: it is another rollout's, made by another key, or a link was edited, dropped, repeated,
                reordered, added or cut off.
        """
        key.verify_json(self.opening.signed_part(), self.opening.signature)
        if rollout is not None and self.opening.rollout != rollout:
            raise SigningError("the record is of another rollout", where=f"rollout {self.opening.rollout[:16]}…")
        head = self.opening.digest
        for index, receipt in enumerate(self.receipts):
            if receipt.sequence != index or receipt.previous != head:
                raise SigningError("receipts do not form one chain", where=f"receipt {index}")
            receipt.verify(key)
            head = receipt.digest
        key.verify_json(self.closing.signed_part(), self.closing.signature)
        if self.closing.count != len(self.receipts) or self.closing.head != head:
            raise SigningError(
                "the record is not whole",
                where=f"{len(self.receipts)} receipts of the {self.closing.count} that were sealed",
            )

    def to_json(self) -> dict[str, Json]:
        """All fields."""
        return {
            "opening": self.opening.__dict__,
            "receipts": [receipt.__dict__ for receipt in self.receipts],
            "closing": self.closing.__dict__,
        }

    @classmethod
    def from_json(cls, value: Json) -> Record:
        """Read what `to_json` wrote; nothing is verified yet.

        Raises:
            SigningError: a field is missing, unknown or of the wrong kind.
        """
        try:
            return _RECORD.validate_json(canonical_json(value))
        except (ValidationError, ValueError, TypeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            where = ".".join(map(str, first["loc"]))[:80]
            raise SigningError(f"not a sandbox's record: {str(first['msg'])[:120]}", where=where) from error


_RECORD = TypeAdapter(Record)


class Recorder:
    """Writes the record of one rollout, link by link.

    Args:
        key: the sandbox's.
        backend: name of what confines the executions.
        files: workspace path to SHA-256 at reset.
    """

    def __init__(self, key: SigningKey, backend: str, files: Mapping[str, str]) -> None:
        self._key = key
        opening = Opening(secrets.token_hex(32), backend, digest_json(files), "")
        self._opening = replace(opening, signature=key.sign_json(opening.signed_part()))
        self._receipts: list[Receipt] = []
        self._head = self._opening.digest
        self._record: Record | None = None

    @property
    def rollout(self) -> str:
        """The rollout's random id."""
        return self._opening.rollout

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Everything added so far, in order."""
        return tuple(self._receipts)

    @property
    def sealed(self) -> bool:
        """Whether nothing can be added any more."""
        return self._record is not None

    def add(self, execution: Execution) -> Receipt:
        """Number, chain and sign the next execution.

        Raises:
            SigningError: the record is sealed.
        """
        if self.sealed:
            raise SigningError("the rollout's record is sealed", where=f"rollout {self.rollout[:16]}…")
        done = {field.name: getattr(execution, field.name) for field in fields(Execution)}
        unsigned = Receipt(**done, sequence=len(self._receipts), previous=self._head, signature="")
        receipt = replace(unsigned, signature=self._key.sign_json(unsigned.signed_part()))
        self._receipts.append(receipt)
        self._head = receipt.digest
        return receipt

    def seal(self, files: Mapping[str, str]) -> Record:
        """Close the chain; the same record when called again.

        Args:
            files: workspace path to SHA-256 at the end.
        """
        if self._record is None:
            unsigned = Closing(len(self._receipts), self._head, digest_json(files), "")
            closing = replace(unsigned, signature=self._key.sign_json(unsigned.signed_part()))
            self._record = Record(self._opening, self.receipts, closing)
        return self._record
