"""How a single value is rebuilt from its meaning, so that nothing of its spelling survives."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Any

from pydicom.datadict import dictionary_has_tag
from pydicom.tag import Tag

from stage_bank.deidentify.clock import Clock
from stage_bank.deidentify.names import Names
from stage_bank.dicom.identifiers import is_registered

__all__ = ["DUMMY", "Kind", "rebuild_scalar"]

DUMMY = "REMOVED"
"""Stands where the standard demands a text."""

_OLDEST_AGE = 90
"""Ages from here on are one group (45 CFR 164.514 (b)(2)(i)(C))."""

_LARGEST_INTEGER = 99_999
"""Counts and pixel values are smaller; patient numbers are mostly larger."""
_LARGEST_DECIMAL = 1e9
_DIGITS = 8
"""Significant digits of a measure: a hundredth of a micrometre at 999 mm."""
_AGE = re.compile(r"(\d{3})([DWMY])")


class Kind(StrEnum):
    """What may be listed for an attribute in the tables, besides vocabularies and nested items."""

    CLASS = "class"
    UID = "uid"
    INTEGER = "integer"
    DECIMAL = "decimal"
    TAG = "tag"
    AGE = "age"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    CODE = "code"
    CONTENT = "content"
    DUMMY = "dummy"
    EMPTY = "empty"


def rebuild_scalar(value: Any, kind: Kind, names: Names, clock: Clock, partner: str) -> Any:
    """The value again, or `None` where it does not have the meaning it should have.

    Args:
        partner: the time that belongs to a date, or the date that belongs to a time; empty when there is none.

    Raises:
        TypeError, ValueError, OverflowError: not a value of this kind.
    """
    match kind:
        case Kind.INTEGER:
            number = int(value)
            return number if abs(number) <= _LARGEST_INTEGER else None
        case Kind.DECIMAL:
            return _decimal(value)
        case Kind.UID:
            uid = str(value).strip(" \0")
            return (uid if is_registered(uid) else names.uid(uid)) if uid else None
        case Kind.CLASS:
            return str(value) if is_registered(str(value)) else None
        case Kind.TAG:
            tag = Tag(value)
            return tag if dictionary_has_tag(tag) else None
        case Kind.AGE:
            return _age(str(value))
        case Kind.DATE:
            return clock.date(str(value), partner)
        case Kind.TIME:
            return clock.time(str(value), partner)
        case Kind.DATETIME:
            return clock.instant(str(value))
        case Kind.DUMMY:
            return DUMMY
    return None


def _decimal(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) and abs(number) <= _LARGEST_DECIMAL else None


def _age(text: str) -> str | None:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        return None
    number, unit = match.groups()
    return f"{_OLDEST_AGE:03d}Y" if unit == "Y" and int(number) >= _OLDEST_AGE else f"{int(number):03d}{unit}"
