"""Write cases as an agent meets them, with the polarity, fault and requested delivery of the condition."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import numpy as np

from common.canonical import canonical_json
from common.errors import DataError
from common.stages import Track
from stage_bank.skills import (
    COLUMNS,
    DELIVERIES,
    FAULTS,
    FILE_NAMES,
    LABEL_SCHEMES,
    LEVELS,
    ORIENTATIONS,
    POLARITIES,
    POLARITY_CHOICE,
    ROWS,
    Array,
    Case,
    Output,
    decode,
    display,
    mend,
    requested,
    restore,
)
from stage_bank.tracks._base import SUBMITTED

__all__ = [
    "case_files",
    "check_condition",
    "common_choice",
    "common_facets",
    "common_options",
    "loaded",
    "npy",
    "read_outputs",
]

STORED_SLOPE = 0.001
"""RescaleSlope of a case with the scale fault: pixels are stored a thousand times too large."""

MISSING = 0.025
"""Share of pixels that the nan fault loses."""


def common_facets(kinds: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The five facets of a track with the given kinds."""
    return {"kind": kinds, "polarity": POLARITIES, "level": LEVELS, "fault": FAULTS, "deliver": DELIVERIES}


def common_options(methods: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The five choices of a track with the given methods."""
    polarity = tuple(POLARITY_CHOICE.values())
    return {"method": methods, "polarity": polarity, "level": LEVELS, "repair": FAULTS, "deliver": DELIVERIES}


def common_choice(methods: Mapping[str, str], condition: Mapping[str, str]) -> dict[str, str]:
    """The right choice: method by kind, polarity by polarity, the rest copied."""
    return {
        "method": methods[condition["kind"]],
        "polarity": POLARITY_CHOICE[condition["polarity"]],
        "level": condition["level"],
        "repair": condition["fault"],
        "deliver": condition["deliver"],
    }


def check_condition(facets: Mapping[str, tuple[str, ...]], condition: Mapping[str, str]) -> None:
    """Check that a condition names every facet with a known value.

    Raises:
        DataError: it does not.
    """
    for facet, values in facets.items():
        if condition.get(facet) not in values:
            raise DataError(
                f"unknown {facet}", where=str(condition.get(facet)), remedy=f"use one of {', '.join(values)}"
            )


def npy(array: Array, dtype: type = np.float32) -> bytes:
    """An array as the bytes of a .npy file (float32 by default)."""
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array, dtype=dtype), allow_pickle=False)
    return stream.getvalue()


def case_files(
    name: str, pixels: Array, condition: Mapping[str, str], rng: np.random.Generator, *, labels: bool = False
) -> dict[str, bytes]:
    """The files of one case, stored in the condition's polarity and with its fault.

    Args:
        name: case name.
        pixels: [rows, columns] in display polarity.
        condition: facet to value.
        rng: decides which pixels the nan fault loses.
        labels: whether the track delivers labels; then the header states a label scheme, else an orientation.
    """
    stored = display(pixels, POLARITY_CHOICE[condition["polarity"]])
    fault = condition["fault"]
    if fault == "nan":
        stored = np.where(rng.random(stored.shape) < MISSING, np.nan, stored)
        stored[ROWS // 2, COLUMNS // 2] = np.nan
    elif fault == "axes":
        stored = stored.T
    elif fault == "scale":
        stored = stored / STORED_SLOPE
    header: dict[str, str | int | float | list[str] | list[int]] = {
        "Rows": ROWS,
        "Columns": COLUMNS,
        "PhotometricInterpretation": "MONOCHROME1" if condition["polarity"] == "inverted" else "MONOCHROME2",
        "RescaleSlope": STORED_SLOPE if fault == "scale" else 1.0,
    }
    if labels:
        header["LabelScheme"] = list(LABEL_SCHEMES[condition["deliver"]])
    else:
        header["PatientOrientation"] = list(ORIENTATIONS[condition["deliver"]])
    return {f"cases/{name}/image.npy": npy(stored), f"cases/{name}/header.json": canonical_json(header)}


def loaded(files: Mapping[str, bytes], name: str, condition: Mapping[str, str]) -> Array:
    """A case as a right pipeline sees it: mended and in display polarity."""
    stored = np.load(io.BytesIO(files[f"cases/{name}/image.npy"]), allow_pickle=False).astype(np.float64)
    case = Case(name=name, stored=stored, header=json.loads(files[f"cases/{name}/header.json"]))
    return display(mend(case, condition["fault"]), POLARITY_CHOICE[condition["polarity"]])


def read_outputs(
    track: Track, outputs: Mapping[str, bytes], files: Mapping[str, bytes], folder: str
) -> dict[str, Output | None]:
    """Decode the outputs of all cases and bring them back to the orientation of the stored image.

    Returns:
        Every case to its output, or to `None` where it is missing or invalid.
    """
    found: dict[str, Output | None] = {}
    for path in sorted(files):
        if not (path.startswith("cases/") and path.endswith("/header.json")):
            continue
        name = path.split("/")[1]
        delivery = requested(json.loads(files[path])) if folder == SUBMITTED else "keep"
        try:
            found[name] = restore(decode(track, outputs[f"{folder}/{name}/{FILE_NAMES[track]}"]), delivery)
        except (KeyError, ValueError):
            found[name] = None
    return found
