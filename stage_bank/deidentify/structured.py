"""Codes and report trees: kept where code and meaning are in the standard's public dictionaries, else left out.

A report keeps containers, codes, numbers, references and coordinates. Its texts, names, dates and times go, whatever
they say, and everything about its subject, observer or persons. The meaning of a code is written from the dictionary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import cast

from pydicom.dataset import Dataset

from stage_bank.deidentify.names import Names
from stage_bank.dicom.identifiers import is_registered

__all__ = ["clean_codes", "clean_content", "code"]

_SCHEMES = ("DCM", "SCT", "UCUM", "LN", "RADLEX", "FMA", "NCIt", "MDC", "IBSI")
_PERSONAL = re.compile(r"\b(subject|person|patient|observer|mother|fetus|operator|physician|birth)\b", re.IGNORECASE)
_RELATIONSHIPS = frozenset(
    {
        "CONTAINS",
        "HAS ACQ CONTEXT",
        "HAS CONCEPT MOD",
        "HAS OBS CONTEXT",
        "HAS PROPERTIES",
        "INFERRED FROM",
        "SELECTED FROM",
    }
)
_GRAPHICS = frozenset({"CIRCLE", "ELLIPSE", "ELLIPSOID", "MULTIPOINT", "POINT", "POLYGON", "POLYLINE"})
_MAX_DEPTH = 32
_LONGEST_CODE = 16


def code(value: str, scheme: str, meaning: str) -> Dataset:
    """One item of a code sequence."""
    item = Dataset()
    item.CodeValue = value
    item.CodingSchemeDesignator = scheme
    item.CodeMeaning = meaning
    return item


def clean_codes(items: Iterable[Dataset]) -> list[Dataset]:
    """Codes that the public dictionaries have, with the dictionaries' meaning; the others are left out."""
    return [found for item in items if (found := _known_code(item)) is not None]


def clean_content(items: Iterable[Dataset], names: Names, depth: int = 0) -> list[Dataset]:
    """A report's content items, cleaned; those of an unknown or personal concept are left out."""
    if depth > _MAX_DEPTH:
        return []
    return [clean for item in items if (clean := _clean_item(item, names, depth)) is not None]


def _clean_item(item: Dataset, names: Names, depth: int) -> Dataset | None:
    concept = clean_codes(_items(item, "ConceptNameCodeSequence"))
    if concept and _PERSONAL.search(str(concept[0].CodeMeaning)):
        return None
    kind = item.get("ValueType")
    clean = Dataset()
    if concept:
        clean.ConceptNameCodeSequence = concept
    elif kind not in ("IMAGE", "COMPOSITE", "CONTAINER"):
        return None
    if not _copy_value(item, clean, kind, names):
        return None
    children = clean_content(_items(item, "ContentSequence"), names, depth + 1)
    if children:
        clean.ContentSequence = children
    elif kind == "CONTAINER":
        return None
    clean.ValueType = kind
    if item.get("RelationshipType") in _RELATIONSHIPS:
        clean.RelationshipType = item.RelationshipType
    return clean


def _copy_value(item: Dataset, clean: Dataset, kind: object, names: Names) -> bool:
    """Write the item's value; False when there is none that may be kept."""
    match kind:
        case "CONTAINER":
            clean.ContinuityOfContent = "SEPARATE"
        case "CODE":
            clean.ConceptCodeSequence = clean_codes(_items(item, "ConceptCodeSequence"))
            return len(clean.ConceptCodeSequence) > 0
        case "NUM":
            clean.MeasuredValueSequence = [
                found for part in _items(item, "MeasuredValueSequence") if (found := _measure(part)) is not None
            ]
            return len(clean.MeasuredValueSequence) > 0
        case "UIDREF":
            uid = str(item.get("UID") or "")
            clean.UID = uid if is_registered(uid) else names.uid(uid)
        case "IMAGE" | "COMPOSITE":
            clean.ReferencedSOPSequence = [
                found
                for part in _items(item, "ReferencedSOPSequence")
                if (found := _reference(part, names)) is not None
            ]
            return len(clean.ReferencedSOPSequence) > 0
        case "SCOORD":
            return _coordinates(item, clean)
        case _:
            return False
    return True


def _measure(part: Dataset) -> Dataset | None:
    units = clean_codes(_items(part, "MeasurementUnitsCodeSequence"))
    try:
        number = float(part.get("NumericValue"))
    except (TypeError, ValueError):
        return None
    if not units or not math.isfinite(number):
        return None
    clean = Dataset()
    clean.NumericValue = f"{number:.7g}"
    clean.MeasurementUnitsCodeSequence = units
    return clean


def _reference(part: Dataset, names: Names) -> Dataset | None:
    sop_class, instance = str(part.get("ReferencedSOPClassUID", "")), str(part.get("ReferencedSOPInstanceUID", ""))
    if not is_registered(sop_class) or not instance:
        return None
    clean = Dataset()
    clean.ReferencedSOPClassUID = sop_class
    clean.ReferencedSOPInstanceUID = names.uid(instance)
    return clean


def _coordinates(item: Dataset, clean: Dataset) -> bool:
    shape, values = item.get("GraphicType"), item.get("GraphicData")
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        return False
    if shape not in _GRAPHICS or not all(map(math.isfinite, numbers)):
        return False
    clean.GraphicType, clean.GraphicData = shape, numbers
    return True


def _items(dataset: Dataset, keyword: str) -> list[Dataset]:
    value = dataset.get(keyword)
    return [] if value is None or isinstance(value, str | bytes) else [i for i in value if isinstance(i, Dataset)]


def _known_code(item: Dataset) -> Dataset | None:
    value, scheme = str(item.get("CodeValue") or "").strip(), str(item.get("CodingSchemeDesignator") or "").strip()
    if scheme in ("SRT", "SNM3", "99SDM"):
        value, scheme = _retired().get(value, ""), "SCT"
    meaning = _meanings().get((scheme, value))
    return code(value, scheme, meaning) if meaning is not None and len(value) <= _LONGEST_CODE else None


@cache
def _meanings() -> Mapping[tuple[str, str], str]:
    """(scheme, value) to meaning, from the dictionaries of PS3.16 that come with pydicom; loaded when first needed."""
    from pydicom.sr._concepts_dict import concepts

    found: dict[tuple[str, str], str] = {}
    for scheme in _SCHEMES:
        for entry in cast("dict[str, dict[str, tuple[str, list[int]]]]", concepts[scheme]).values():
            found.update({(scheme, value): meaning[:64] for value, (meaning, _) in entry.items()})
    return found


@cache
def _retired() -> Mapping[str, str]:
    """Retired SNOMED codes to today's."""
    from pydicom.sr._snomed_dict import mapping

    return mapping["SRT"]
