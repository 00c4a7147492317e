"""What the sandbox recorded of one execution: the only account of it that the rubrics believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from common.canonical import Json, digest_json
from common.signing import VerifyKey

__all__ = ["FIRST", "Language", "Receipt"]

FIRST = "0" * 64
"""The `previous` digest of a rollout's first receipt."""


class Language(StrEnum):
    """What `execute_code` can run."""

    PYTHON = "python"
    BASH = "bash"


@dataclass(frozen=True)
class Receipt:
    """One execution, chained to the one before it in the same rollout and signed by the sandbox's key.

    Args:
        sequence: position within the rollout, from 0.
        language: interpreter.
        code: exactly what was asked to run.
        exit_status: process exit status; negative is the signal that ended it.
        timed_out: whether the wall-clock limit ended it.
        wall_s: elapsed seconds.
        cpu_s: user plus system seconds of the whole process tree.
        peak_memory_bytes: largest resident set of a process in the tree.
        output: standard output and error together, cut at the cap.
        output_truncated: whether the cap cut it.
        changed: workspace path to SHA-256 of the new content, or `None` where the file is gone.
        previous: digest of the receipt before it, or `FIRST`.
        signature: Ed25519 over the canonical JSON of all the above, 128 hex digits.
    """

    sequence: int
    language: Language
    code: str
    exit_status: int
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    output: str
    output_truncated: bool
    changed: Mapping[str, str | None]
    previous: str
    signature: str

    @property
    def succeeded(self) -> bool:
        """Whether the process ended by itself with status 0."""
        return self.exit_status == 0 and not self.timed_out

    def signed_part(self) -> dict[str, Json]:
        """The fields that are signed."""
        return {name: value for name, value in self.__dict__.items() if name != "signature"}

    @property
    def digest(self) -> str:
        """SHA-256 over the signed part and the signature; what the next receipt points at."""
        return digest_json({**self.signed_part(), "signature": self.signature})

    def verify(self, key: VerifyKey) -> None:
        """Check that the sandbox holding `key` made this receipt.

        Raises:
            SigningError: it did not.
        """
        key.verify_json(self.signed_part(), self.signature)
