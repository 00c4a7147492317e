"""Everything in a file that could name its patient, gathered in memory for the patient wall."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset, FileDataset
from pydicom.uid import UID

__all__ = ["MIN_LENGTH", "collect_identifiers", "is_registered", "runs"]

MIN_LENGTH = 4
"""Shorter strings occur by chance everywhere."""

_WHOLE = frozenset({"AE", "DA", "DT", "LO", "LT", "PN", "SH", "ST", "UC", "UI", "UR", "UT"})
"""Value representations that can identify. Times, ages, codes and numbers alone cannot, and would match by chance."""

_BINARY = frozenset({"OB", "UN"})
_PIXELS = 0x7FE0
_MAX_BINARY = 1 << 20
_RUN = re.compile(rb"[\x20-\x7e\x80-\xff]{8,256}")
_WORD = re.compile(r"[^\W_]{4,}")


def is_registered(text: str) -> bool:
    """Whether a string is a UID that the standard itself defines (PS3.6 annex A), such as an SOP class."""
    return text.startswith("1.2.840.10008.") and UID(text).name != text


def collect_identifiers(dataset: FileDataset) -> set[str]:
    """Strings of the whole file: names, IDs, UIDs, dates, free text and its words, private and nested ones, preamble.

    Returns:
        Whole values and, for names and texts, their words; each at least `MIN_LENGTH` characters.
    """
    found: set[str] = set()
    for part in (dataset, dataset.file_meta):
        for text, with_words in _texts(part):
            found.add(text)
            if with_words:
                found.update(_WORD.findall(text))
    if dataset.preamble:
        found.update(runs(bytes(dataset.preamble)))
    return {text for text in found if len(text) >= MIN_LENGTH and not is_registered(text)}


def _texts(dataset: Dataset) -> Iterator[tuple[str, bool]]:
    for element in _elements(dataset):
        if element.is_empty:
            continue
        if element.VR in _WHOLE:
            values = element.value if element.VM > 1 else [element.value]
            for value in values:
                text = str(value).strip(" \t\r\n\0")
                yield text, element.VR not in ("DA", "DT", "UI", "AE")
        elif element.VR in _BINARY and isinstance(element.value, bytes) and len(element.value) <= _MAX_BINARY:
            yield from ((run, False) for run in runs(element.value))


def _elements(dataset: Dataset) -> Iterator[DataElement]:
    """All elements of all depths but pixels, which may still be on disk and stay there."""
    for tag in list(dataset.keys()):
        if tag >> 16 == _PIXELS:
            continue
        element = dataset[tag]
        yield element
        if element.VR == "SQ":
            for item in element.value:
                yield from _elements(item)


def runs(data: bytes) -> set[str]:
    """Readable runs of 8 to 256 bytes."""
    return {run.decode("latin-1").strip() for run in _RUN.findall(data)}
