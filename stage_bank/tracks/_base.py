"""The one interface of every track: fabricate states on real pixels, know the right choice, score an output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common.errors import DataError
from common.stages import Track
from rubrics.layout import SUBMITTED, cases_of
from stage_bank.picture import Picture
from stage_bank.skills import DELIVERIES, LEVELS, POLARITIES, POLARITY_CHOICE, Output, TrackSkill

__all__ = ["Condition", "Fabricated", "Outputs", "TrackSpec", "UnfitPictures"]

Condition = Mapping[str, str]
"""What a state hides: kind, polarity, level, fault and deliver, each with its value."""

Outputs = Mapping[str, Output | None]
"""Every case to its decoded output as a pipeline makes it, or to `None` where it is missing or invalid."""


class UnfitPictures(DataError):
    """None of the pictures has a view that can carry the task; others of the same patient may."""


@dataclass(frozen=True)
class Fabricated:
    """What one fabrication gives.

    Args:
        files: public workspace files, relative path to content: `cases/<case>/{image.npy,header.json}`, whatever else
            the track lays beside them, and, where it learns, `exemplars/`.
        references: what only the verifier may see, relative path to content.
    """

    files: Mapping[str, bytes]
    references: Mapping[str, bytes]


@dataclass(frozen=True)
class TrackSpec:
    """One task family.

    Args:
        track: which track it is.
        skill: what the toolkit can do on it; methods and faults of the track are said there.
        make: (pictures, condition, rng, case names) to cases on seeded views of the pictures; raises `UnfitPictures`.
        grade: (outputs, references) to a score in [0, 1] of every output that there is, and `None` for the others.
        pooled: whether a score belongs to all cases together; a pilot is then graded on the piloted cases alone.
    """

    track: Track
    skill: TrackSkill
    make: Callable[[Sequence[Picture], Condition, np.random.Generator, Sequence[str]], Fabricated]
    grade: Callable[[Outputs, Mapping[str, bytes]], dict[str, float | None]]
    pooled: bool = False

    @cached_property
    def facets(self) -> Mapping[str, tuple[str, ...]]:
        """Hidden facets and their values: kind, polarity, level, fault, deliver."""
        kinds, faults = tuple(self.skill.methods), self.skill.faults
        return {"kind": kinds, "polarity": POLARITIES, "level": LEVELS, "fault": faults, "deliver": DELIVERIES}

    @cached_property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Valid values of the choices an agent makes: method, polarity, level, repair, deliver."""
        methods, polarities = tuple(self.skill.methods.values()), tuple(POLARITY_CHOICE.values())
        faults = self.skill.faults
        return {"method": methods, "polarity": polarities, "level": LEVELS, "repair": faults, "deliver": DELIVERIES}

    def right_choice(self, condition: Condition) -> dict[str, str]:
        """The choice that is right under a condition.

        Args:
            condition: facet to value, all facets present.

        Returns:
            Option name to value, for every name in `options`.
        """
        return {
            "method": self.skill.methods[condition["kind"]],
            "polarity": POLARITY_CHOICE[condition["polarity"]],
            "level": condition["level"],
            "repair": condition["fault"],
            "deliver": condition["deliver"],
        }

    def fabricate(
        self, pictures: Sequence[Picture], condition: Condition, rng: np.random.Generator, cases: int
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
        for facet, values in self.facets.items():
            if condition.get(facet) not in values:
                raise DataError(
                    f"unknown {facet}", where=str(condition.get(facet)), remedy=f"use one of {', '.join(values)}"
                )
        return self.make(pictures, condition, rng, [f"case{index}" for index in range(1, cases + 1)])

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
            folder: `SUBMITTED`, `BATCH` or `PILOT` of `rubrics.layout`; the last two are compared before delivery.

        Returns:
            Every case of the fabrication to a score in [0, 1], or to `None` where its output is missing or invalid.
        """
        found = {name: self._output(name, outputs, files, folder) for name in cases_of(files)}
        if self.pooled and folder != SUBMITTED:
            there = {name: output for name, output in found.items() if output is not None}
            return {**dict.fromkeys(found), **(self.grade(there, references) if there else {})}
        return self.grade(found, references)

    def _output(
        self, name: str, outputs: Mapping[str, bytes], files: Mapping[str, bytes], folder: str
    ) -> Output | None:
        """The decoded output of a case as a pipeline makes it: a delivered one is brought back."""
        form, header = self.skill.form, json.loads(files[f"cases/{name}/header.json"])
        try:
            output = form.decode(outputs[f"{folder}/{name}/{form.file_name}"])
            if folder == SUBMITTED:
                output = form.restore(output, form.requested(header))
        except (KeyError, ValueError):
            return None
        return output if form.fits(output, (header["Rows"], header["Columns"])) else None
