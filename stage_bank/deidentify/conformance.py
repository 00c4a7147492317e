"""The table of `docs/deidentification.md`: what PS3.15 table E.1-1 asks for, and what the allow-lists do about it.

python -m stage_bank.deidentify.conformance > docs/deidentification.md
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from pydicom.datadict import dictionary_description, tag_for_keyword
from pydicom.tag import Tag
from pydicom.uid import UID

from stage_bank.deidentify.allowlists import Attribute, Rule, allow_lists
from stage_bank.deidentify.dataset import EMPTY
from stage_bank.deidentify.faces import VOLUME_SLICES
from stage_bank.deidentify.kinds import Kind
from stage_bank.deidentify.marks import OPTIONS

__all__ = ["Row", "document", "rows"]

_REMOVED = "removed"
_EMPTY = "empty"
_WORDING: Mapping[Kind, str] = {
    Kind.UID: "replaced",
    Kind.CLASS: "kept when the standard defines it",
    Kind.INTEGER: "parsed and written again",
    Kind.DECIMAL: "parsed and written again",
    Kind.TAG: "kept when the standard defines it",
    Kind.AGE: "kept, 90 years and more as 090Y",
    Kind.DATE: "moved (safe-harbor: removed)",
    Kind.TIME: "moved (safe-harbor: removed)",
    Kind.DATETIME: "moved (safe-harbor: removed)",
    Kind.CODE: "codes of public dictionaries only",
    Kind.CONTENT: "coded, numeric and referring items only",
    Kind.DUMMY: "dummy",
    Kind.EMPTY: _EMPTY,
}
_BY_OPTION: Mapping[Kind, str] = {
    Kind.DATE: "113107",
    Kind.TIME: "113107",
    Kind.DATETIME: "113107",
    Kind.AGE: "113108",
    Kind.CONTENT: "113104",
}
_WHOLE_GROUPS = (
    ("private attributes", "X", _REMOVED),
    ("curves (50xx)", "X", _REMOVED),
    ("overlays (60xx): data, labels, comments", "X", _REMOVED),
    ("overlay bits in unused bits of pixels", "X", "cleared: pixels are decoded and written again"),
    ("file meta group, preamble, bytes behind the data set", "-", "written afresh; the preamble is zero"),
    ("encapsulated documents", "-", "the object is refused"),
    ("video transfer syntaxes", "-", "the object is refused"),
    ("objects of a class that no list has", "-", "the object is refused"),
)


@dataclass(frozen=True)
class Row:
    """One attribute of table E.1-1.

    Args:
        keyword: the attribute.
        action: code the profile asks for.
        ours: what is done, in words.
        option: code of the option by which it stays; empty when none is needed.
        families: which lists have it; empty when none has.
        kept: kind of the value that stays, or `None`.
    """

    keyword: str
    action: str
    ours: str
    option: str
    families: tuple[str, ...]
    kept: Rule | None


def rows() -> list[Row]:
    """Every attribute of table E.1-1 that has a keyword, by tag."""
    text = files("stage_bank.deidentify.tables").joinpath("basic_profile.toml").read_text("utf-8")
    table: dict[str, str] = tomllib.loads(text)
    asked = {keyword: action for action, words in table.items() for keyword in words.split()}
    return [_row(keyword, asked[keyword]) for keyword in sorted(asked, key=_tag)]


def document() -> str:
    """The page, in Markdown."""
    return "\n".join([*_introduction(), *_lists(), *_attributes()]) + "\n"


def _row(keyword: str, action: str) -> Row:
    found = [(family, rule) for family in allow_lists() for rule in _find(family.attributes, _tag(keyword))]
    families = tuple(dict.fromkeys(family.family for family, _ in found))
    if keyword in ("PatientID",):
        return Row(keyword, action, "pseudonym", "", families, None)
    if not found:
        return Row(keyword, action, _EMPTY if keyword in EMPTY else _REMOVED, "", (), None)
    rule = found[0][1]
    ours = _wording(rule)
    option = _BY_OPTION.get(rule, "") if isinstance(rule, Kind) else "113108" if keyword == "PatientSex" else ""
    return Row(keyword, action, f"{ours}, else empty" if keyword in EMPTY else ours, option, families, rule)


def _find(attributes: Mapping[int, Attribute], tag: int) -> Iterator[Rule]:
    for place, attribute in attributes.items():
        if place == tag:
            yield attribute.rule
        if isinstance(attribute.rule, Mapping):
            yield from _find(attribute.rule, tag)


def _wording(rule: Rule) -> str:
    if isinstance(rule, Kind):
        return _WORDING[rule]
    return "values of a closed set only" if isinstance(rule, frozenset) else "items rebuilt by the same rules"


def _tag(keyword: str) -> int:
    tag = tag_for_keyword(keyword)
    if tag is None:
        raise ValueError(f"no attribute of the standard is called {keyword}")
    return int(tag)


def _introduction() -> list[str]:
    options = [f"| {code} | {OPTIONS[code]} | {when} |" for code, when in _WHEN.items()]
    return [_INTRODUCTION, "| code | option of PS3.15 | when it is written |", "|---|---|---|", *options, "", _LIMITS]


_INTRODUCTION = """\
# De-identification

Written by `python -m stage_bank.deidentify.conformance`; do not edit.

`bat-client bank deidentify IN OUT --report R.json --key-file K` writes what can be made safe and names what cannot.
Exit status: 0 every file written, 3 some refused, 1 nothing could be done. The lists below are the only attributes that
get into an object; nested ones follow the same rules. What is listed is rebuilt from its meaning: a name in a number, a
code or a UID does not get through.

Profiles: `modified-dates` (default) moves dates by a secret amount per patient, between one and ten years, and replaces
UIDs by a keyed hash; `safe-harbor` has no dates, and its UIDs and patient names are random numbers kept in the site's
table. Dates of a patient who cannot be told apart are removed in both.
"""
_LIMITS = f"""\
## Limits a privacy officer should know

- Text: images of the families marked *likely* below, captures of screens, colour images and everything declared to show
  text are searched before the header is dropped, so that its names and dates help: with Tesseract, whose language
  model the system provides (`apt-get install tesseract-ocr-eng`), and for rows of marks that look drawn, in any script.
  Without the model they are refused. Handwriting, letters below about 8 pixels and text that fades into its
  surroundings may be missed. Other images are searched as well when the model is there, with more care for anatomy,
  unless `--quick` is given.
- Faces: a CT, MR or PET series of {VOLUME_SLICES} slices or more that shows a head, or does not say what it shows,
  loses everything in front of and below a plane placed by the skin. Heads nodded or turned by more than about 15
  degrees, small children and deformed skulls may keep part of the face or lose part of the frontal brain; ears stay.
  Where the plane cannot be placed the series is refused. `--keep-faces` is the site's own decision.
- Scouts and single slices are not defaced. Photographs by a camera and cone-beam volumes of the skull are refused.
- Rare findings can point to a person; nothing here changes what the pixels show of a disease.
- Every header was searched for the original header's strings of eight characters and more before it was written, and
  the file refused if one was left.
"""


_WHEN: Mapping[str, str] = {
    "113100": "always",
    "113101": "every frame was searched for text; BurnedInAnnotation is NO then, and only then",
    "113102": "the face of a head volume was removed",
    "113103": "always: overlays, curves and graphics are in no list",
    "113104": "structured reports: texts, names and dates left out",
    "113105": "always: descriptions are in no list",
    "113107": "profile modified-dates, for a patient who can be told apart",
    "113108": "age or sex is there",
}


def _lists() -> list[str]:
    described = {family.family: _described(family.attributes) for family in allow_lists()}
    everywhere = set.intersection(*map(set, described.values()))
    images = set.intersection(*(set(lines) for name, lines in described.items() if name != "report"))
    lines = ["## What each family of SOP classes keeps", "", "### every object", "", *_by_wording(everywhere)]
    lines += ["### every image, besides", "", *_by_wording(images - everywhere)]
    for family in allow_lists():
        classes = ", ".join(sorted({UID(uid).name for uid in family.classes}))
        own = set(described[family.family]) - everywhere - (set() if family.family == "report" else images)
        lines += [f"### {family.family}, besides", "", f"Text in pixels: {family.text.value}. Classes: {classes}.", ""]
        lines += _by_wording(own)
    return lines


def _described(attributes: Mapping[int, Attribute], path: str = "") -> list[tuple[str, str]]:
    """Wording and name of every attribute, nested ones with their sequences in front."""
    found = []
    for tag, attribute in attributes.items():
        name = path + dictionary_description(tag)
        if isinstance(attribute.rule, Mapping):
            found += _described(attribute.rule, f"{name} > ")
        else:
            found.append((_wording(attribute.rule), name))
    return found


def _by_wording(entries: set[tuple[str, str]]) -> list[str]:
    wordings = sorted({wording for wording, _ in entries})
    lines = [f"- {wording}: {', '.join(sorted(n for w, n in entries if w == wording))}" for wording in wordings]
    return [*lines, ""] if lines else ["- nothing", ""]


def _attributes() -> list[str]:
    lines = [
        "## Table E.1-1, attribute by attribute",
        "",
        "Action codes: X remove, Z empty or dummy, D dummy, U replace consistently. Attributes that are not here are",
        "removed as well, unless a list above has them.",
        "",
        "| tag | attribute | asked | done | by option | in lists |",
        "|---|---|---|---|---|---|",
        *(f"| | {name} | {action} | {done} | | |" for name, action, done in _WHOLE_GROUPS),
    ]
    for row in rows():
        tag = Tag(_tag(row.keyword))
        where = "all" if len(row.families) == len(allow_lists()) else ", ".join(row.families)
        name = dictionary_description(tag)
        lines.append(f"| {tag} | {name} | {row.action} | {row.ours} | {row.option} | {where} |")
    return lines


if __name__ == "__main__":
    print(document(), end="")
