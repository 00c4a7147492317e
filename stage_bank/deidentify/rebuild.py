"""Build a data set from what an allow-list names; everything else is never looked at."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any

from pydicom.datadict import tag_for_keyword
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset

from stage_bank.deidentify.allowlists import Attribute, Rule
from stage_bank.deidentify.clock import Clock
from stage_bank.deidentify.kinds import Kind, rebuild_scalar
from stage_bank.deidentify.names import Names
from stage_bank.deidentify.structured import clean_codes, clean_content

__all__ = ["Rebuilder"]

_PER_FRAME = frozenset(
    tag_for_keyword(keyword)
    for keyword in (
        "PerFrameFunctionalGroupsSequence", "FrameTimeVector", "GridFrameOffsetVector", "SliceVector", "DetectorVector",
        "EnergyWindowVector", "RotationVector",
    )
)  # fmt: skip
"""Attributes with one value or item for each frame."""
_OTHER = "OTHER"
_TEXTS = frozenset({"CS", "LO", "SH"})
_RANGES: Mapping[str, tuple[int, int]] = {
    "IS": (-(2**31), 2**31 - 1),
    "SL": (-(2**31), 2**31 - 1),
    "SS": (-(2**15), 2**15 - 1),
    "UL": (0, 2**32 - 1),
    "US": (0, 2**16 - 1),
    "US or SS": (-(2**15), 2**16 - 1),
}
"""Whole numbers that a representation holds; a value outside would make the file unwritable."""


@dataclass(frozen=True)
class Rebuilder:
    """Rebuilds data sets of one patient.

    Args:
        names: stand-ins for UIDs.
        clock: moves dates.
        frames: indices of the frames that are kept, or `None` for all.
    """

    names: Names
    clock: Clock
    frames: Sequence[int] | None = None

    def dataset(self, source: Dataset, attributes: Mapping[int, Attribute]) -> Dataset:
        """A new data set with the listed attributes whose values mean what they should."""
        clean = Dataset()
        for tag in sorted(attributes.keys() & source.keys()):
            attribute = attributes[tag]
            value = source[tag].value
            if source[tag].is_empty and attribute.vr != "SQ":
                clean.add(DataElement(tag, _written_vr(attribute.vr, 0), None))  # some must be there, even if empty
                continue
            if tag in _PER_FRAME and self.frames is not None and isinstance(value, MutableSequence):
                value = [value[index] for index in self.frames if index < len(value)]
            partner = str(source[attribute.partner].value) if attribute.partner in source else ""
            cleaned = self._value(value, attribute, partner)
            if cleaned is not None:
                clean.add(DataElement(tag, _written_vr(attribute.vr, cleaned), cleaned))
        return clean

    def _value(self, value: Any, attribute: Attribute, partner: str) -> Any:
        rule = attribute.rule
        if rule is Kind.EMPTY:
            return ""
        values = list(value) if isinstance(value, MutableSequence) else [value]
        if isinstance(rule, Mapping) or rule in (Kind.CODE, Kind.CONTENT):
            return self._items([item for item in values if isinstance(item, Dataset)], rule)
        try:
            cleaned = [self._scalar(item, attribute.vr, attribute.rule, partner) for item in values]
        except (TypeError, ValueError, OverflowError):
            return None
        if not cleaned or None in cleaned:
            return None
        return cleaned if len(cleaned) > 1 else cleaned[0]

    def _items(self, items: list[Dataset], rule: Rule) -> list[Dataset] | None:
        if rule is Kind.CODE:
            cleaned = clean_codes(items)
        elif rule is Kind.CONTENT:
            cleaned = clean_content(items, self.names)
        else:
            assert isinstance(rule, Mapping)
            cleaned = [self.dataset(item, rule) for item in items]
        return [item for item in cleaned if len(item)] or None

    def _scalar(self, value: Any, vr: str, rule: Rule, partner: str) -> Any:
        if value is None or value == "":
            return None
        if isinstance(rule, Kind):
            rebuilt = rebuild_scalar(value, rule, self.names, self.clock, partner)
            return None if rebuilt is None else _fitted(rebuilt, vr)
        assert isinstance(rule, frozenset)
        if isinstance(value, str) and value.strip() in rule:
            return value.strip()
        return _OTHER if _OTHER in rule and isinstance(value, str) else None


def _fitted(value: Any, vr: str) -> Any:
    """A value in the type its representation is written from.

    Raises:
        ValueError: a number that the representation cannot hold.
    """
    if vr in _TEXTS:
        return str(value)
    if vr not in _RANGES:
        return value
    least, most = _RANGES[vr]
    if value != int(value) or not least <= value <= most:
        raise ValueError("does not fit its representation")
    return int(value)


def _written_vr(vr: str, value: Any) -> str:
    """The representation to write, where the standard leaves a choice: signed for negative numbers."""
    if vr != "US or SS":
        return vr
    return "SS" if min(value if isinstance(value, list) else [value]) < 0 else "US"
