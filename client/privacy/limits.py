"""`site.toml`, section `[privacy]`: what a bank may spend under differential privacy."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["PrivacyLimits"]


class PrivacyLimits(BaseModel):
    """The budget of the site's bank, across all runs and federations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(gt=0, le=100)
    """Total for good."""
    delta: float = Field(gt=0, lt=1)
    """Of every statement; at most a tenth of one over `patients`."""
    patients: int = Field(ge=2)
    """How many patients the site says in public that it has, at least; bounds `delta`."""
