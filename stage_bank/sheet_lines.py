"""The texts of a case as lines for a person: what is its own first, what every case has last."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["sheet_lines"]

MOST_LINES, MOST_COLUMNS = 20, 48

HEADER = "header.json"
"""File that every case has."""


def sheet_lines(texts: Mapping[str, bytes], case: str) -> list[str]:
    """Lines of at most `MOST_COLUMNS` characters; the last of `MOST_LINES` is an ellipsis where there would be more.

    Args:
        texts: file name to content, UTF-8 or not, JSON or not.
        case: name of the case; of a file that says something of every case only what it says of this one is shown.
    """
    names = sorted(texts, key=lambda name: (name == HEADER, name))
    long = [line for name in names for line in (name, *_lines(texts[name], case))]
    lines = [part for line in long for part in textwrap.wrap(line, MOST_COLUMNS, subsequent_indent="  ")]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]


def _lines(data: bytes, case: str) -> Iterator[str]:
    content = data.decode("utf-8", "replace").strip()
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        yield from content.splitlines()
        return
    own = value.get(case, value) if isinstance(value, dict) else value
    yield from _fields(own) if isinstance(own, dict) else [_plain(own)]


def _fields(fields: Mapping[str, Any]) -> Iterator[str]:
    """One field a line; a list of objects as a table, and a list that is longer than a line item by item."""
    for name, value in fields.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield f"{name}: {', '.join(value[0])}"
            yield from (", ".join(map(_plain, row.values())) for row in value)
        elif isinstance(value, list) and len(_plain(value)) > 2 * MOST_COLUMNS:
            yield f"{name}:"
            yield from map(_plain, value)
        else:
            yield f"{name}: {_plain(value)}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False).replace('"', "")
