"""The allow-lists as the code uses them: for each SOP class, tag by tag, what may be rebuilt and how.

The lists themselves are data, in `tables/*.toml`. A value there is a kind (`decimal`), the name of a vocabulary
(`modality`) or of a fragment (`reference`), a vocabulary written out, or nested items.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from pydicom._uid_dict import UID_dictionary
from pydicom.datadict import dictionary_VR, keyword_for_tag, tag_for_keyword

from stage_bank.deidentify.kinds import Kind

__all__ = ["AllowList", "Attribute", "Rule", "TextRisk", "allow_list", "allow_lists", "vocabularies", "vocabulary"]


class TextRisk(StrEnum):
    """Whether pixels of a family show text."""

    LIKELY = "likely"
    UNLIKELY = "unlikely"
    NONE = "none"


@dataclass(frozen=True)
class Attribute:
    """How one attribute is rebuilt.

    Args:
        vr: value representation it is written with.
        rule: kind, vocabulary, or nested attributes by tag.
        partner: tag of the date or time that belongs to it, or 0.
    """

    vr: str
    rule: Rule
    partner: int


Rule: TypeAlias = "Kind | frozenset[str] | Mapping[int, Attribute]"


@dataclass(frozen=True)
class AllowList:
    """What objects of one family of SOP classes keep.

    Args:
        family: its name.
        classes: UIDs of its SOP classes.
        text: whether its pixels show text.
        attributes: by tag.
    """

    family: str
    classes: frozenset[str]
    text: TextRisk
    attributes: Mapping[int, Attribute]


def allow_list(sop_class: str) -> AllowList | None:
    """The list of a SOP class UID; `None` when no family has it."""
    return _by_class().get(sop_class)


@cache
def allow_lists() -> tuple[AllowList, ...]:
    """All families that have SOP classes, sorted by name."""
    uids = {entry[4]: uid for uid, entry in UID_dictionary.items()}
    shared = _read("vocabularies") | _read("fragments")
    tables = {name: _read(name) for name in _names()}
    lists = []
    for table in tables.values():
        if table["classes"]:
            classes = frozenset(uids[keyword] for keyword in table["classes"])
            attributes = _compile(_with_included(table, tables), shared)
            lists.append(AllowList(table["family"], classes, TextRisk(table["text"]), attributes))
    return tuple(sorted(lists, key=lambda found: found.family))


@cache
def vocabulary(name: str) -> frozenset[str]:
    """A closed set of `tables/vocabularies.toml`."""
    values: list[str] = _read("vocabularies")[name]
    return frozenset(values)


@cache
def vocabularies() -> frozenset[str]:
    """Every value of every closed set."""
    return frozenset(value for values in _read("vocabularies").values() for value in values)


@cache
def _by_class() -> Mapping[str, AllowList]:
    return {uid: found for found in allow_lists() for uid in found.classes}


def _names() -> list[str]:
    names = sorted(entry.name for entry in files("stage_bank.deidentify.tables").iterdir())
    stems = [name.removesuffix(".toml") for name in names if name.endswith(".toml")]
    return [stem for stem in stems if "family" in _read(stem)]


@cache
def _read(name: str) -> dict[str, Any]:
    text = files("stage_bank.deidentify.tables").joinpath(f"{name}.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)
    return table


def _with_included(table: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name in table.get("includes", ()):
        merged |= _with_included(tables[name], tables)
    merged.update(table["attributes"])
    return merged


def _compile(attributes: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[int, Attribute]:
    compiled = {}
    for keyword, written in attributes.items():
        tag = tag_for_keyword(keyword)
        if tag is None:
            raise ValueError(f"no attribute of the standard is called {keyword}")
        rule = _rule(written, shared)
        compiled[int(tag)] = Attribute(dictionary_VR(tag), rule, _partner(keyword, rule))
    return dict(sorted(compiled.items()))


def _rule(written: Any, shared: Mapping[str, Any]) -> Rule:
    if isinstance(written, str) and written not in shared:
        return Kind(written)
    meant = shared[written] if isinstance(written, str) else written
    return frozenset(meant) if isinstance(meant, list) else _compile(meant, shared)


def _partner(keyword: str, rule: Rule) -> int:
    """The tag of StudyTime for StudyDate and the other way round."""
    ending = {Kind.DATE: ("Date", "Time"), Kind.TIME: ("Time", "Date")}.get(rule) if isinstance(rule, Kind) else None
    tag = tag_for_keyword(keyword.removesuffix(ending[0]) + ending[1]) if ending else None
    return int(tag) if tag is not None and keyword_for_tag(tag) else 0
