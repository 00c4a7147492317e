"""Slices put in order by where they lie, and what is wrong with their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from stage_bank.deidentify.heads import Slice

__all__ = ["Issue", "Stack", "evenly", "series_issues", "stacks"]

_SAME_DIRECTION = 0.999
"""Cosine; about 2.5 degrees."""
_SAME_SPACING = 0.01
_SAME_POSITION_MM = 0.01
_MISSING = 1.5
"""A gap longer than this many usual steps lacks a slice."""
_TILT_DEGREES = 0.5
_MARGIN = 0.1
"""Share of the slices at either end of a stack that rarely shows much."""


class Issue(StrEnum):
    """What the geometry of a series shows. None of them stops its slices from being pictures."""

    TILT = "gantry tilt: slices are shifted against each other"
    MISSING = "slices are missing"
    DUPLICATE = "several slices at one position"
    ORIENTATIONS = "several orientations or sizes"
    SPACINGS = "several pixel spacings"
    NO_GEOMETRY = "no position, orientation or spacing"


@dataclass(frozen=True)
class Stack:
    """Parallel slices of one size and spacing.

    Args:
        order: indices into the slices given, by rising distance along the normal; ties as given.
        issues: what is wrong with them.
    """

    order: tuple[int, ...]
    issues: frozenset[Issue]


def stacks(places: Sequence[Slice | None]) -> list[Stack]:
    """Divide slices into stacks, the largest first; slices without geometry form the last one, in their own order."""
    groups: list[list[int]] = []
    lost = []
    for index, place in enumerate(places):
        if place is None:
            lost.append(index)
            continue
        for group in groups:
            first = places[group[0]]
            if first is not None and _parallel(first, place) and _alike(first, place):
                group.append(index)
                break
        else:
            groups.append([index])
    found = [_stack([(index, place) for index in group if (place := places[index]) is not None]) for group in groups]
    found.sort(key=lambda stack: -len(stack.order))
    return [*found, Stack(tuple(lost), frozenset({Issue.NO_GEOMETRY}))] if lost else found


def series_issues(places: Sequence[Slice | None], found: Sequence[Stack]) -> frozenset[Issue]:
    """Issues of a series and of its stacks."""
    issues = {issue for stack in found for issue in stack.issues}
    known = [place for place in places if place is not None]
    if any(not _parallel(known[0], place) or _size(known[0]) != _size(place) for place in known):
        issues.add(Issue.ORIENTATIONS)
    if any(not np.allclose(known[0].spacing, place.spacing, rtol=_SAME_SPACING) for place in known):
        issues.add(Issue.SPACINGS)
    return frozenset(issues)


def evenly(count: int, wanted: int, margin: float = _MARGIN) -> list[int]:
    """All of `range(count)`, `wanted` evenly spaced ones first.

    Args:
        count: of slices.
        wanted: how many to space evenly.
        margin: share at either end that is left for last.
    """
    if count <= wanted:
        return list(range(count))
    if (1 - 2 * margin) * count < wanted:
        margin = 0.0
    low, high = margin * count, (1 - margin) * count
    chosen = sorted({int(low + (high - low) * (2 * i + 1) / (2 * wanted)) for i in range(wanted)})
    taken = set(chosen)
    middle = count / 2
    return chosen + sorted((i for i in range(count) if i not in taken), key=lambda i: abs(i + 0.5 - middle))


def _stack(members: list[tuple[int, Slice]]) -> Stack:
    normal = np.cross(members[0][1].across, members[0][1].down)
    members = sorted(members, key=lambda member: float(member[1].position @ normal))
    positions = np.array([place.position for _, place in members])
    steps = np.diff(positions @ normal)
    apart = steps[steps > _SAME_POSITION_MM]
    issues = set()
    if len(apart) < len(steps):
        issues.add(Issue.DUPLICATE)
    if len(apart) and apart.max() > _MISSING * np.median(apart):
        issues.add(Issue.MISSING)
    if len(apart):
        along = positions[-1] - positions[0]
        height = float(along @ normal)
        shift = float(np.linalg.norm(along - height * normal))
        if np.degrees(np.arctan2(shift, abs(height))) > _TILT_DEGREES:
            issues.add(Issue.TILT)
    return Stack(tuple(index for index, _ in members), frozenset(issues))


def _parallel(one: Slice, other: Slice) -> bool:
    return float(one.across @ other.across) > _SAME_DIRECTION and float(one.down @ other.down) > _SAME_DIRECTION


def _alike(one: Slice, other: Slice) -> bool:
    return _size(one) == _size(other) and np.allclose(one.spacing, other.spacing, rtol=_SAME_SPACING)


def _size(place: Slice) -> tuple[int, int]:
    return place.rows, place.columns
