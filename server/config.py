"""`federation.toml`: the settings of one run, kept unchanged in its directory as `config.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from common.messages import Digest, Name, OptimizerSettings
from common.settings_file import read_settings
from common.stages import Stage, Track
from server.aggregation import RULES

__all__ = [
    "DEFAULT_TRACKS",
    "AggregationOptions",
    "EvaluationSettings",
    "FederationConfig",
    "SiteEnrolment",
    "load_federation_config",
]

DEFAULT_TRACKS = (Track.CLASSIFICATION, Track.ENHANCEMENT, Track.SEGMENTATION)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SiteEnrolment(_Settings):
    """One enrolled site."""

    name: Name
    public_key: Digest
    """The site's Ed25519 key as printed by `bat-client key`, 64 hex digits."""
    weight: float = Field(default=1.0, ge=0, le=1e6, allow_inf_nan=False)
    """Public constant of the federation."""


class EvaluationSettings(_Settings):
    """Held-out evaluation after each round."""

    enabled: bool = True
    """Without it every healthy candidate is promoted and the target stage stays `initial_target`."""
    cells_per_track: int = Field(default=16, ge=1)
    """Tasks of each track in the gate suite, and again in the sealed one."""


class AggregationOptions(_Settings):
    """Constants of the aggregation rule; see docs/aggregation.md."""

    trim: float = Field(default=0.2, ge=0, lt=0.5)
    """`trimmed_mean`: share of the sites cut off at each end."""
    byzantine: int = Field(default=1, ge=0)
    """`krum`, `multi_krum`: hostile sites to bear."""
    norm_bound: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Scale larger updates down to this norm."""


class FederationConfig(_Settings):
    """Everything a run is made of. Relative paths start at the folder of the file."""

    run: Name
    seed: int = Field(default=1, ge=0)
    rounds: int = Field(ge=1, le=100_000)
    model: Path
    """Folder of the base model."""
    signing_key: Path
    """The server's private key; made when missing."""
    sites: tuple[SiteEnrolment, ...] = Field(min_length=1)
    tracks: tuple[Track, ...] = DEFAULT_TRACKS
    aggregation: Annotated[Name, BeforeValidator(lambda name: _known_rule(name))] = "fedavg"
    aggregation_options: AggregationOptions = AggregationOptions()
    optimizer: OptimizerSettings
    initial_target: Stage | None = None
    """First target stage; chosen by evaluating the cold start when not set."""
    quorum: int = Field(default=1, ge=1)
    """Valid releases a round needs."""
    round_timeout_s: int = Field(default=600, ge=1)
    """Seconds from prescription to deadline."""
    enrolment_timeout_s: int = Field(default=120, ge=1)
    """Seconds to wait for all sites before the first round."""
    max_update_norm: float = Field(default=1000.0, gt=0)
    """Largest Euclidean norm of an update over all tensors."""
    evaluation: EvaluationSettings = EvaluationSettings()

    def to_toml(self) -> str:
        """The settings as a file that `load_federation_config` reads back."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    @model_validator(mode="after")
    def _consistent(self) -> FederationConfig:
        names = [site.name for site in self.sites]
        keys = [site.public_key for site in self.sites]
        if len(set(names)) != len(names) or len(set(keys)) != len(keys):
            raise ValueError("a site's name or key stands twice")
        if self.quorum > len(names):
            raise ValueError(f"quorum {self.quorum} is more than {len(names)} sites")
        if self.aggregation.endswith("krum") and len(names) < 2 * self.aggregation_options.byzantine + 3:
            raise ValueError(f"{self.aggregation} needs 2 byzantine + 3 sites, there are {len(names)}")
        if not self.evaluation.enabled and self.initial_target is None:
            raise ValueError("initial_target must be set when evaluation is off")
        return self


def load_federation_config(path: Path, changes: Mapping[str, object] | None = None) -> FederationConfig:
    """Read a run's settings.

    Args:
        path: the file.
        changes: settings of the command line, which win over the file's.

    Raises:
        ConfigurationError: the file is missing, not TOML, or a setting is unknown or out of range.
    """
    config = read_settings(path, FederationConfig, changes)
    base = path.resolve().parent
    return config.model_copy(update={"model": base / config.model, "signing_key": base / config.signing_key})


def _known_rule(name: object) -> object:
    if name not in RULES:
        raise ValueError(f"aggregation rule is one of {', '.join(RULES)}")
    if not RULES[str(name)].runs:
        raise ValueError(f"aggregation rule {name} is for the Python API: no run keeps what it adds to the base model")
    return name
