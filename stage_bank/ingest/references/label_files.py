"""The site's own label files, read: a CSV of classes and boxes, and JSON boxes, plain or of the COCO layout."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError

__all__ = ["NOTHING", "Label", "read_labels"]

NOTHING = frozenset({"0", "healthy", "negative", "no finding", "no findings", "none", "normal"})
"""Classes that say that nothing real is there, in lower case. Every other class marks something."""

_KINDS = ("file", "series", "instance")
_SIDES = ("left", "top", "right", "bottom")


@dataclass(frozen=True)
class Label:
    """One statement on one or more pictures.

    Args:
        name: file and line or number, for the report.
        kind: what `value` names: `file` (path in the ingested folder), `series` or `instance` (UID).
        value: the name.
        frame: from 0; `None` for every frame.
        size: rows and columns that the coordinates are meant for; `None` where not stated.
        boxes: left, top, right, bottom in pixels; the upper left corner of the picture is (0, 0).
        whole: whether something is there, nobody knows where.
    """

    name: str
    kind: str
    value: str
    frame: int | None
    size: tuple[int, int] | None
    boxes: tuple[tuple[float, float, float, float], ...]
    whole: bool


def read_labels(path: Path) -> tuple[Label, ...]:
    """Read a label file: JSON when its name ends in `.json`, a CSV otherwise.

    A CSV has the columns `kind`, `value` and `label`; with a box also `left`, `top`, `right`, `bottom`; and where
    wanted `frame`, `rows`, `columns`. JSON is a list of objects with `boxes`, one of `file`, `series` and `instance`,
    and where wanted `frame`, `rows`, `columns`; or an object with COCO's `images` and `annotations`, whose boxes are
    left, top, width, height.

    Raises:
        ConfigurationError: unreadable, or a statement that is not of this form.
    """
    number = 0
    labels = []
    try:
        rows = _json_rows(path) if path.suffix.lower() == ".json" else _csv_rows(path)
        for number, row in rows:
            labels.append(_label(f"{path.name}, {number}", row))
    except (OSError, UnicodeDecodeError, csv.Error, json.JSONDecodeError, RecursionError) as error:
        raise ConfigurationError("cannot read the labels", where=str(path), remedy="Save as UTF-8.") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            "not a label", where=f"{path}, at or after {number}", remedy="See docs/install-hospital.md for the form."
        ) from error
    return tuple(labels)


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        if not {"kind", "value", "label"} <= set(reader.fieldnames or ()):
            raise ConfigurationError("labels have the columns kind, value, label", where=str(path))
        for row in reader:
            kept: dict[str, Any] = {key: text.strip() for key, text in row.items() if key and (text or "").strip()}
            sides = [kept[side] for side in _SIDES if side in kept]
            nothing = kept["label"].lower() in NOTHING
            if len(sides) not in (0, len(_SIDES)) or (sides and nothing):
                raise ValueError("a box without all sides, or around nothing")
            boxes = [sides] if sides else []
            yield reader.line_num, kept | {kept["kind"]: kept["value"], "boxes": boxes, "whole": not nothing}


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    document = json.loads(path.read_bytes())
    if isinstance(document, list):
        for number, row in enumerate(document, start=1):
            yield number, dict(row) | {"whole": False}
        return
    boxes: dict[object, list[list[float]]] = {image["id"]: [] for image in document["images"]}
    for annotation in document["annotations"]:
        left, top, width, height = (float(side) for side in annotation["bbox"])
        boxes[annotation["image_id"]].append([left, top, left + width, top + height])
    for number, image in enumerate(document["images"], start=1):
        size = {"rows": image["height"], "columns": image["width"]}
        yield number, {"file": image["file_name"], "boxes": boxes[image["id"]], "whole": False, **size}


def _label(name: str, row: Mapping[str, Any]) -> Label:
    (kind,) = (kind for kind in _KINDS if kind in row)
    if not isinstance(row[kind], str):
        raise TypeError("a name is a text")
    size = (int(row["rows"]), int(row["columns"])) if "rows" in row or "columns" in row else None
    boxes = tuple(_box(box) for box in row["boxes"])
    frame = int(row["frame"]) if "frame" in row else None
    return Label(name, kind, row[kind], frame, size, boxes, bool(row["whole"]) and not boxes)


def _box(sides: Any) -> tuple[float, float, float, float]:
    left, top, right, bottom = (float(side) for side in sides)
    if not (math.isfinite(left + top + right + bottom) and left < right and top < bottom):
        raise ValueError("an empty box")
    return left, top, right, bottom
