"""The other ways in which an identifier may be written: names reordered, dates in other notations, accents dropped."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from itertools import permutations

__all__ = ["renderings"]

_LEAST_DIGITS = 5
"""Of an identifier that is also searched for without its dividers; fewer occur by chance."""

_MOST_DOTS = 3
"""Dots from which on an identifier is a UID, whose digits nobody writes without them."""

_BETWEEN = (" ", ", ", ",", "_", "-", ".", "^")
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")


def renderings(identifier: str) -> frozenset[str]:
    """All writings of one identifier to search for, itself among them.

    A person name (parts divided by `^`) is given with its first two parts in both orders; parts alone are searched for
    as whole words, see `NameWords`. A number with dividers ("12-34-567") is given without them too. A date is a string
    of eight digits that the calendar has.
    """
    text = identifier.strip()
    found = {text, *_names(text), *_dates(text), *_numbers(text)}
    found |= {unicodedata.normalize(form, one) for one in found for form in ("NFC", "NFD", "NFKC")}
    found |= {_plain(one) for one in found}
    found |= {one.upper() for one in found if not one.isascii()}
    return frozenset(found)


def _names(text: str) -> set[str]:
    parts = [part.strip() for part in text.split("^") if part.strip()][:2]
    if "^" not in text or len(parts) < 2:
        return set()
    return {between.join(order) for order in permutations(parts) for between in _BETWEEN}


def _numbers(text: str) -> set[str]:
    """An identifier with digits and dividers, without the dividers."""
    plain = re.sub(r"[-_./\s]", "", text)
    numbered = plain != text and len(plain) >= _LEAST_DIGITS and "^" not in text and text.count(".") < _MOST_DOTS
    return {plain} if numbered and sum(sign.isdigit() for sign in plain) >= _LEAST_DIGITS else set()


def _dates(text: str) -> set[str]:
    if not re.fullmatch(r"[0-9]{8}", text):
        return set()
    try:
        date = datetime.strptime(text, "%Y%m%d")
    except ValueError:
        return set()
    return {date.strftime(form) for form in _DATES}


def _plain(text: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
