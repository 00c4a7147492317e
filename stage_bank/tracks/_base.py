"""The one interface of every track: fabricate states on real pixels, know the right choice, score an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from common.errors import DataError
from common.stages import Track
from stage_bank.picture import Picture

__all__ = ["BATCH", "PILOT", "SUBMITTED", "Fabricated", "TrackSpec", "UnfitPictures"]

SUBMITTED = "agents_outputs"
"""Folder of the delivered outputs (`bat submit`), in the requested orientation or label scheme."""

BATCH = "process/batch"
"""Folder of the whole batch before delivery (`bat infer`), in the orientation of the stored image."""

PILOT = "process/pilot"
"""Folder of the pilot case before delivery (`bat pilot`)."""


class UnfitPictures(DataError):
    """None of the pictures has a view that can carry the task; others of the same patient may."""


@dataclass(frozen=True)
class Fabricated:
    """What one fabrication gives.

    Args:
        files: public workspace files, relative path to content: `cases/<case>/{image.npy,header.json}` and, for
            classification, `exemplars/`.
        references: what only the verifier may see, relative path to content.
    """

    files: Mapping[str, bytes]
    references: Mapping[str, bytes]


class TrackSpec(Protocol):
    """One task family."""

    @property
    def track(self) -> Track:
        """Which track it is."""

    @property
    def facets(self) -> Mapping[str, tuple[str, ...]]:
        """Hidden facets and their values: kind, polarity, level, fault, deliver."""

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Valid values of the choices an agent makes: method, polarity, level, repair, deliver."""

    def right_choice(self, condition: Mapping[str, str]) -> dict[str, str]:
        """The choice that is right under a condition.

        Args:
            condition: facet to value, all facets present.

        Returns:
            Option name to value, for every name in `options`.
        """

    def fabricate(
        self, pictures: Sequence[Picture], condition: Mapping[str, str], rng: np.random.Generator, cases: int
    ) -> Fabricated:
        """Make cases on seeded views of the given pictures.

        Args:
            pictures: at least one real picture of one patient.
            condition: facet to value, all facets present.
            rng: decides views, lesions, noise and faults.
            cases: how many cases, at least 2; they are named `case1`, `case2`, ...

        Raises:
            UnfitPictures: no view of these pictures can carry the task.
            DataError: a facet or value is unknown.
        """

    def score(
        self,
        outputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        references: Mapping[str, bytes],
        folder: str = SUBMITTED,
    ) -> dict[str, float | None]:
        """Score outputs against the hidden reference.

        Args:
            outputs: workspace files by relative path; only those under `folder` are read.
            files: the public files of the fabrication.
            references: the hidden files of the fabrication.
            folder: `SUBMITTED`, `BATCH` or `PILOT`; the last two are compared before delivery.

        Returns:
            Every case of the fabrication to a score in [0, 1], or to `None` where its output is missing or invalid.
        """
