"""Reading what an agent left behind, without believing more of it than its form allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from common.canonical import digest_json
from rubrics.layout import PIPELINE, SETUP, SUBMISSION

__all__ = ["PLAN_CHOICES", "Pipeline", "read_object", "read_pipeline"]

PLAN_CHOICES = ("method", "polarity", "level")
"""The choices made by the plan; `repair` belongs to the set-up, `deliver` to the submission."""

MAXIMUM_BYTES = 65_536
MAXIMUM_CANDIDATES = 99


def read_object(data: bytes | None) -> dict[str, Any] | None:
    """Parse a JSON object strictly.

    Returns:
        The object, or `None` where there is no file, it is longer than 64 KiB, not UTF-8, not JSON, not an object, or
        holds NaN, an infinity or a repeated key.
    """
    if data is None or len(data) > MAXIMUM_BYTES:
        return None
    try:
        value = json.loads(data.decode(), parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("repeated key")
    return result


@dataclass(frozen=True)
class Pipeline:
    """The pipeline that stands in a workspace.

    Args:
        choices: option name to a valid value; an option that was not chosen, or not validly, is absent.
        candidates: how many candidate methods the plan says were compared; 0 without a plan.
    """

    choices: Mapping[str, str] = field(default_factory=dict)
    candidates: int = 0

    @property
    def planned(self) -> bool:
        """Whether every choice of the plan is made."""
        return all(name in self.choices for name in PLAN_CHOICES) and self.candidates > 0

    @property
    def digest(self) -> str:
        """SHA-256 over the choices, 64 hex digits."""
        return digest_json({"choices": dict(self.choices), "candidates": self.candidates})


def read_pipeline(files: Mapping[str, bytes], options: Mapping[str, tuple[str, ...]]) -> Pipeline:
    """Read the submitted pipeline from plan, set-up record and submission.

    Args:
        files: workspace files by relative path.
        options: option name to its valid values.
    """
    plan = read_object(files.get(PIPELINE)) or {}
    sources = {
        **dict.fromkeys(PLAN_CHOICES, plan),
        "repair": read_object(files.get(SETUP)) or {},
        "deliver": read_object(files.get(SUBMISSION)) or {},
    }
    choices = {}
    for name, valid in options.items():
        value = sources[name].get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value in valid:
            choices[name] = value
    count = plan.get("candidates")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MAXIMUM_CANDIDATES:
        count = 0
    return Pipeline(choices, count)
