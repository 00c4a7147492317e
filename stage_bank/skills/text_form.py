"""Outputs that are reports: `report.txt`, one finding a line and the impression last."""

from __future__ import annotations

import re

from .delivery import Form

__all__ = ["Lines", "decode_report", "encode_report", "report_form"]

Lines = tuple[str, ...]
"""Lines of a report, each ending in a full stop; the last one is the impression."""

SECTIONS = {
    "keep": ("findings", "impression"),
    "flip": ("impression", "findings reversed"),
    "turn": ("impression", "findings"),
}
"""Delivery to the order in which the lines are asked for."""

SHORTEST, LONGEST, LETTERS = 40, 8000, 20
"""Fewest and most characters of a report, and the fewest letters (AutoMedBench)."""

_IMPRESSION = re.compile(r"Impression: ([0-9]{1,4}) present, ([0-9]{1,4}) absent\.")


def report_form(file_name: str) -> Form:
    """The form of reports that are written to a file of that name."""
    return Form(
        file_name=file_name,
        encode=encode_report,
        decode=decode_report,
        field="ReportSections",
        stated=SECTIONS,
        turn=_turn,
        restore=_restore,
        fits=lambda lines, shape: _whole(lines),
    )


def encode_report(lines: Lines) -> bytes:
    """A report as UTF-8 text."""
    return ("\n".join(lines) + "\n").encode()


def decode_report(data: bytes) -> Lines:
    """Read a report that may be hostile.

    Raises:
        ValueError: not UTF-8, too short or too long, too few letters, or not printable.
    """
    if len(data) > 4 * LONGEST:
        raise ValueError("too long")
    text = data.decode("utf-8")
    lines = tuple(line for line in text.replace("\r\n", "\n").split("\n") if line.strip())
    letters = sum(character.isalpha() for character in text)
    if not (SHORTEST <= len(text) <= LONGEST and letters >= LETTERS and all(line.isprintable() for line in lines)):
        raise ValueError("no report")
    return lines


def _whole(lines: Lines) -> bool:
    """Whether every line is finished and the impression counts them all: a report that was cut short does not."""
    impression = _IMPRESSION.fullmatch(lines[-1]) if lines else None
    counted = sum(int(number) for number in impression.groups()) if impression else -1
    return counted == len(lines) - 1 and all(line.endswith(".") for line in lines)


def _turn(lines: Lines, delivery: str) -> Lines:
    if delivery == "flip":
        return lines[::-1]
    return (*lines[-1:], *lines[:-1]) if delivery == "turn" else lines


def _restore(lines: Lines, delivery: str) -> Lines:
    if delivery == "flip":
        return lines[::-1]
    return (*lines[1:], *lines[:1]) if delivery == "turn" else lines
