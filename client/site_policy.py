"""What a hospital allows: a typed policy, and the check of one prescription against it."""

from __future__ import annotations

from datetime import UTC, date, datetime

from pydantic import BaseModel, ConfigDict, Field

from common.errors import PolicyRefusal
from common.messages import Name, Prescription, RefusalCode
from common.stages import Stage, Track

__all__ = ["SitePolicy", "check_policy"]


class SitePolicy(BaseModel):
    """The limits of `site.toml`, section `[policy]`. The defaults allow a round of this version and nothing beyond."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stages: tuple[Stage, ...] = tuple(Stage)
    """Target stages the site practises."""
    tracks: tuple[Track, ...] = (Track.CLASSIFICATION, Track.ENHANCEMENT, Track.SEGMENTATION)
    """Task families the site practises."""
    aggregation: tuple[Name, ...] = ("fedavg",)
    """Aggregation rules the site's update may enter."""
    max_update_bytes: int = Field(default=64 << 20, ge=1)
    """Largest adapter that is accepted, and largest update that may leave."""
    max_rollouts: int = Field(default=100_000, ge=0)
    """Most rollouts one round may ask for: steps x groups x group size."""
    require_differential_privacy: bool = False
    """Refuse every round without differential privacy."""
    approved_until: date | None = None
    """Last day (UTC) on which the site takes part; no end when not set."""


def check_policy(policy: SitePolicy, prescription: Prescription, *, now: datetime | None = None) -> None:
    """Refuse a prescription that goes beyond the policy.

    Args:
        policy: the site's limits.
        prescription: an authentic prescription.
        now: the time to judge by; the clock when not given.

    Raises:
        PolicyRefusal: with code POLICY, naming the setting that forbids it.
    """
    moment = now or datetime.now(UTC)
    asked = prescription.optimizer
    rollouts = asked.steps * asked.groups_per_step * asked.group_size
    foreign_tracks = set(prescription.tracks) - set(policy.tracks)
    if policy.approved_until is not None and moment.date() > policy.approved_until:
        raise _refusal(f"the approval ended on {policy.approved_until}", "approved_until")
    if prescription.target_stage not in policy.stages:
        raise _refusal(f"stage {prescription.target_stage} is not allowed", "stages")
    if foreign_tracks:
        raise _refusal(f"track {sorted(foreign_tracks)[0]} is not allowed", "tracks")
    if prescription.aggregation not in policy.aggregation:
        raise _refusal(f"aggregation rule {prescription.aggregation} is not allowed", "aggregation")
    if rollouts > policy.max_rollouts:
        raise _refusal(f"{rollouts} rollouts are more than {policy.max_rollouts}", "max_rollouts")
    if policy.require_differential_privacy and not prescription.differential_privacy:
        raise _refusal("a round without differential privacy is not allowed", "require_differential_privacy")
    if prescription.differential_privacy:
        raise _refusal("this release trains without differential privacy only", "differential_privacy")


def _refusal(what: str, setting: str) -> PolicyRefusal:
    return PolicyRefusal(RefusalCode.POLICY, what, where=f"policy.{setting}", remedy="Change site.toml to allow it.")
