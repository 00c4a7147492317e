"""The one interface of every track: fabricate states on real pixels, know the right choice, score an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from common.stages import Track

__all__ = ["BATCH", "PILOT", "SUBMITTED", "Fabricated", "Image", "TrackSpec"]

Image = npt.NDArray[np.float32]
"""One greyscale image, float32 in [0, 1], bright means bright."""

SUBMITTED = "agents_outputs"
"""Folder of the delivered outputs (`bat submit`), in the requested orientation or label scheme."""

BATCH = "process/batch"
"""Folder of the whole batch before delivery (`bat infer`), in the orientation of the stored image."""

PILOT = "process/pilot"
"""Folder of the pilot case before delivery (`bat pilot`)."""


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
        self, images: Sequence[Image], condition: Mapping[str, str], rng: np.random.Generator, cases: int
    ) -> Fabricated:
        """Make cases on seeded views of the given images.

        Args:
            images: at least one real image of one patient, two dimensions, any size.
            condition: facet to value, all facets present.
            rng: decides views, lesions, noise and faults.
            cases: how many cases, at least 2; they are named `case1`, `case2`, ...

        Raises:
            DataError: no usable image, or a facet or value is unknown.
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
