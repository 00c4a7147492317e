"""What the sandbox recorded of one execution: the only account of it that the rubrics believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from common.canonical import Json, digest_json
from common.signing import VerifyKey

__all__ = ["STRICT", "Execution", "Language", "Receipt"]

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""How links are read from JSON: every field, no other, each of its own kind."""


class Language(StrEnum):
    """What `execute_code` can run."""

    PYTHON = "python"
    BASH = "bash"


@dataclass(frozen=True)
class Execution:
    """What one execution did, as seen from outside.

    Args:
        language: interpreter.
        code: exactly what was asked to run.
        exit_status: process exit status; negative is the signal that ended it.
        timed_out: whether the wall-clock limit ended it.
        wall_s: elapsed seconds.
        cpu_s: user plus system seconds of the whole process tree.
        peak_memory_bytes: largest resident set of a process in the tree.
        output: standard output and error together, cut at the cap.
        output_truncated: whether the cap cut it.
        created: workspace path to SHA-256 of each file that was not there before.
        modified: workspace path to SHA-256 of the new content of each file that was there with another one.
        deleted: workspace path to SHA-256 of the last content of each file that is gone.
    """

    language: Language
    code: str
    exit_status: int
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    output: str
    output_truncated: bool
    created: Mapping[str, str]
    modified: Mapping[str, str]
    deleted: Mapping[str, str]

    @property
    def succeeded(self) -> bool:
        """Whether the process ended by itself with status 0."""
        return self.exit_status == 0 and not self.timed_out

    @property
    def changed(self) -> dict[str, str | None]:
        """Path to SHA-256 of every file created or modified, and to `None` for every file deleted."""
        return {**self.created, **self.modified, **dict.fromkeys(self.deleted)}


@dataclass(frozen=True)
class Receipt(Execution):
    """An execution as a link of its rollout's chain, signed by the sandbox's key.

    Args:
        sequence: position within the rollout, from 0.
        previous: digest of the link before it; the first receipt points at the rollout's opening.
        signature: Ed25519 over the canonical JSON of all fields but itself, 128 hex digits.
    """

    sequence: int
    previous: str
    signature: str

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def signed_part(self) -> dict[str, Json]:
        """The fields that are signed."""
        return {"link": "receipt", **{name: value for name, value in self.__dict__.items() if name != "signature"}}

    @property
    def digest(self) -> str:
        """SHA-256 over the signed part and the signature; what the next link points at."""
        return digest_json({**self.signed_part(), "signature": self.signature})

    def verify(self, key: VerifyKey) -> None:
        """Check that the sandbox holding `key` made this receipt.

        Raises:
            SigningError: it did not.
        """
        key.verify_json(self.signed_part(), self.signature)
