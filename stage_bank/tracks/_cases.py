"""Write cases as an agent meets them, with the polarity, fault and requested delivery of the condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from common.canonical import Json
from stage_bank.skills import COLUMNS, POLARITY_CHOICE, ROWS, Array, Case, Output, TrackSkill, display, load, parse_case
from stage_bank.tracks._base import Condition, Outputs
from stage_bank.tracks._faults import FAULT_SEEDS, Stored, stated_for

__all__ = ["case_files", "each", "loaded"]


def case_files(
    name: str,
    pixels: Array,
    condition: Condition,
    rng: np.random.Generator,
    skill: TrackSkill,
    extra: Mapping[str, bytes] | None = None,
    stated: Mapping[str, Json] | None = None,
) -> dict[str, bytes]:
    """The files of one case, stored in the condition's polarity and with its fault.

    Args:
        name: case name.
        pixels: [rows, columns] in display polarity.
        condition: facet to value.
        rng: decides what the fault spoils.
        skill: of the track; the header asks for the condition's delivery in the words of its form.
        extra: more files of the case, file name to content.
        stated: more fields of its header.
    """
    stored = display(pixels, POLARITY_CHOICE[condition["polarity"]])
    header: dict[str, Json] = {
        "Rows": ROWS,
        "Columns": COLUMNS,
        "PhotometricInterpretation": "MONOCHROME1" if condition["polarity"] == "inverted" else "MONOCHROME2",
        "RescaleSlope": 1.0,
        skill.form.field: list(skill.form.stated[condition["deliver"]]),
        **stated_for(stored, skill.faults),
        **(stated or {}),
    }
    files = {**FAULT_SEEDS[condition["fault"]](Stored(stored, header), rng).files(), **(extra or {})}
    return {f"cases/{name}/{file}": content for file, content in files.items()}


def loaded(files: Mapping[str, bytes], name: str, condition: Condition) -> Case:
    """A case as a right pipeline sees it: mended and in display polarity."""
    folder = f"cases/{name}/"
    own = {path.removeprefix(folder): data for path, data in files.items() if path.startswith(folder)}
    return load(parse_case(name, own), condition["fault"], POLARITY_CHOICE[condition["polarity"]])


def each(outputs: Outputs, score: Callable[[str, Output], float]) -> dict[str, float | None]:
    """Grade the outputs one by one."""
    return {name: None if output is None else score(name, output) for name, output in outputs.items()}
