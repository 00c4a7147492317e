"""One resettable starting point of the Stage Bank."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from common.canonical import Json, canonical_json, digest_json
from common.errors import BankError
from common.stages import Focus, Outcome, Track

__all__ = ["TrainingState"]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class TrainingState:
    """A state: what the agent starts from, and what only the verifier may see.

    Args:
        focus: the stage it practises, or E2E.
        track: task family.
        outcome: how the earlier stages went.
        patient: the site's keyed pseudonym of the one patient it draws on; never leaves the site.
        prompt: the user message; public, free of conditions and of anything about a patient.
        files: the workspace at reset, relative path to content.
        hidden: references and the second view for replay, relative path to content; never enters the sandbox
            of the rollout.
        condition: the facets the right choices depend on (hidden; the agent must find them by inspection).
    """

    focus: Focus
    track: Track
    outcome: Outcome
    patient: str
    prompt: str
    files: Mapping[str, bytes]
    hidden: Mapping[str, bytes]
    condition: Mapping[str, str]

    @property
    def state_id(self) -> str:
        """SHA-256 of the whole content, 64 hex digits."""
        return digest_json(self._to_json())

    def _to_json(self) -> dict[str, Json]:
        return {
            "schema_version": SCHEMA_VERSION,
            "focus": self.focus,
            "track": self.track,
            "outcome": self.outcome,
            "patient": self.patient,
            "prompt": self.prompt,
            "files": {path: base64.b64encode(data).decode() for path, data in self.files.items()},
            "hidden": {path: base64.b64encode(data).decode() for path, data in self.hidden.items()},
            "condition": dict(self.condition),
        }

    def to_bytes(self) -> bytes:
        """Canonical JSON; equal states give equal bytes."""
        return canonical_json(self._to_json())

    @classmethod
    def from_bytes(cls, data: bytes) -> TrainingState:
        """Read what `to_bytes` wrote.

        Raises:
            BankError: not a state of this schema version.
        """
        try:
            fields = json.loads(data)
            if fields.pop("schema_version") != SCHEMA_VERSION:
                raise ValueError("unknown schema version")
            return cls(
                focus=Focus(fields["focus"]),
                track=Track(fields["track"]),
                outcome=Outcome(fields["outcome"]),
                patient=fields["patient"],
                prompt=fields["prompt"],
                files={path: base64.b64decode(text) for path, text in fields["files"].items()},
                hidden={path: base64.b64decode(text) for path, text in fields["hidden"].items()},
                condition=fields["condition"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BankError("not a training state", where=str(error)[:120]) from error
