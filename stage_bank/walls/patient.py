"""The patient wall: no state that could name a patient is admitted, and one bad state stops no other.

Everything a state holds is searched for every identifier of the ingested files (names, IDs, UIDs, dates, accession
numbers, free text) in its usual renderings: raw, in UTF-16 and Latin-1, in base64, hex, URL and JSON escapes, in
full-width letters, and inside gzip, zip and PNG containers; text also for single parts of names. The check fails
closed: a state that cannot be searched is refused. What it cannot see is text drawn into pixels; ingest refuses those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from stage_bank.prompts import user_prompt
from stage_bank.state import TrainingState
from stage_bank.walls.breach import Breach
from stage_bank.walls.layers import Layer, layers
from stage_bank.walls.name_words import NameWords
from stage_bank.walls.needles import NeedleIndex
from stage_bank.walls.public_words import mask_public
from stage_bank.walls.renderings import renderings

__all__ = ["PatientWall"]

REMEMBERED = 2048
"""Files whose findings are kept: states that share a patient's pixels share most of their files."""

_ABSOLUTE = re.compile(
    r"(?:(?<![\w./~-])|(?<=file://))/(?:[\w.~@+-]+/)+[\w.~@+-]*|(?<!\w)[A-Za-z]:\\[\w.]|\\\\[\w.-]+\\"
)


class PatientWall:
    """Checks states against the identifiers of one ingest.

    Args:
        identifiers: strings that must not occur; shorter than 4 characters are too common to search for.
    """

    def __init__(self, identifiers: Iterable[str]) -> None:
        texts = frozenset(identifiers)
        self._needles = NeedleIndex(form for text in texts for form in renderings(text))
        self._names = NameWords(texts)
        self._lower = frozenset(text.strip().lower() for text in texts)
        self._contents_found = lru_cache(REMEMBERED)(self._search)

    def breaches(self, state: TrainingState) -> list[Breach]:
        """All findings in one state; none when it may be admitted. What cannot be searched is a finding."""
        try:
            return [*_form(state), *self._contents(state)]
        except Exception as error:  # fail closed, whatever a strange state makes a parser do
            return [Breach("state", f"cannot be searched: {type(error).__name__}")]

    def _contents(self, state: TrainingState) -> Iterator[Breach]:
        for where, content in _parts(state):
            yield from (Breach(where, what) for what in self._contents_found(content))

    def _search(self, content: bytes) -> tuple[str, ...]:
        return tuple(what for layer in layers(content) for what in self._layer(layer))

    def _layer(self, layer: Layer) -> Iterator[str]:
        data = layer.data if layer.binary else mask_public(layer.data, self._lower)
        named = not layer.binary and self._names.occur_in(data.decode("utf-8", "replace"))
        if named or self._needles.occurs_in(data, binary=layer.binary):
            yield f"identifier of an ingested file{layer.note}"
        if not layer.binary and _ABSOLUTE.search(layer.data.decode("latin-1")):
            yield f"absolute path{layer.note}"


def _form(state: TrainingState) -> Iterator[Breach]:
    if state.prompt != user_prompt(state.track, state.focus):
        yield Breach("prompt", "words beyond track and stage")
    if not re.fullmatch(r"[0-9a-f]{32}|public", state.patient):
        yield Breach("patient", "not a keyed pseudonym")
    for path in (*state.files, *state.hidden):
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
            yield Breach("file name", "leaves the workspace")


def _parts(state: TrainingState) -> Iterator[tuple[str, bytes]]:
    """Every part of a state, named by its position so that a file's name cannot leak through a finding."""
    facts = "\n".join([state.prompt, *state.condition.keys(), *state.condition.values(), *state.files, *state.hidden])
    sections: Sequence[tuple[str, Iterable[bytes]]] = (
        ("prompt, condition and file names", [facts.encode()]),
        ("public file", state.files.values()),
        ("hidden file", state.hidden.values()),
    )
    for section, contents in sections:
        for number, content in enumerate(contents, 1):
            yield f"{section} {number}", content
