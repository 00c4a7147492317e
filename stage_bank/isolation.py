"""The patient wall: no state that could name a patient is admitted, and one bad state stops no other.

Everything a state holds is searched for every identifier of the ingested files (names, IDs, UIDs, dates, accession
numbers, free text): raw, in UTF-16 and Latin-1, in base64, and inside gzip, zip and PNG containers. The check fails
closed: a state that cannot be searched is refused. What it cannot see is text drawn into pixels; ingest refuses those.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from stage_bank.layers import Layer, layers
from stage_bank.needles import NeedleIndex
from stage_bank.prompts import user_prompt
from stage_bank.state import TrainingState

__all__ = ["PUBLIC_WORDS", "Breach", "PatientWall", "Rejected"]

PUBLIC_WORDS = frozenset(
    {
        "agents", "agents_outputs", "array", "axis", "bool", "candidates", "case", "cases", "class", "classes",
        "classification", "command", "complete", "condition", "deliver", "descr", "detection", "dtype", "E2E",
        "enhanced", "enhancement", "exemplars", "failure", "false", "fault", "file", "files", "finite", "float",
        "float32", "focus", "format", "fortran_order", "header", "help", "image", "images", "infer", "input",
        "inputs", "inspect", "invert", "json", "keep", "kind", "label", "labels", "lesion", "level", "loading",
        "MONOCHROME1", "MONOCHROME2", "mask", "method", "name", "names", "none", "null", "numpy", "order",
        "outcome", "output", "outputs", "path", "PhotometricInterpretation", "pilot", "pipeline", "plan",
        "polarity", "process", "public", "range", "recovery", "reference", "repair", "residual", "result",
        "scale", "score", "segmentation", "setup", "shape", "size", "spacing", "stage", "state", "status",
        "step", "steps", "submission", "submit", "success", "task", "text", "track", "true", "turn", "value",
        "values", "verify", "version", "view",
    }
)  # fmt: skip
"""Words of the states' own public formats; a patient's files may hold them too (a series called "image"), which names
nobody. Never add a word that could be a name."""

_ABSOLUTE = re.compile(
    r"(?:(?<![\w./~-])|(?<=file://))/(?:[\w.~@+-]+/)+[\w.~@+-]*|(?<!\w)[A-Za-z]:\\[\w.]|\\\\[\w.-]+\\"
)


@dataclass(frozen=True)
class Breach:
    """One finding. It says where and of which kind, never the identifier itself, so that it may be logged at the site.

    Args:
        where: part of the state.
        what: kind of finding.
    """

    where: str
    what: str


@dataclass(frozen=True)
class Rejected:
    """A state that stays out.

    Args:
        state_id: its id, or empty when not even that could be computed.
        breaches: why, at least one.
    """

    state_id: str
    breaches: tuple[Breach, ...]


class PatientWall:
    """Checks states against the identifiers of one ingest.

    Args:
        identifiers: strings that must not occur; shorter than 4 characters are too common to search for.
        public_words: words that may occur although a file holds them too.
    """

    def __init__(self, identifiers: Iterable[str], *, public_words: Collection[str] = PUBLIC_WORDS) -> None:
        public = {word.casefold() for word in public_words}
        self._needles = NeedleIndex(text for text in identifiers if text.strip().casefold() not in public)

    def breaches(self, state: TrainingState) -> list[Breach]:
        """All findings in one state; none when it may be admitted. What cannot be searched is a finding."""
        try:
            return [*_form(state), *self._contents(state)]
        except Exception as error:  # fail closed, whatever a strange state makes a parser do
            return [Breach("state", f"cannot be searched: {type(error).__name__}")]

    def admit(self, states: Iterable[TrainingState]) -> tuple[list[TrainingState], list[Rejected]]:
        """Split states into those that pass and those that do not."""
        passed, rejected = [], []
        for state in states:
            found = self.breaches(state)
            if found:
                rejected.append(Rejected(_identify(state), tuple(found)))
            else:
                passed.append(state)
        return passed, rejected

    def _contents(self, state: TrainingState) -> Iterator[Breach]:
        for where, layer in _parts(state):
            if self._needles.occurs_in(layer.data, binary=layer.binary):
                yield Breach(where, f"identifier of an ingested file{layer.note}")
            if not layer.binary and _ABSOLUTE.search(layer.data.decode("latin-1")):
                yield Breach(where, f"absolute path{layer.note}")


def _form(state: TrainingState) -> Iterator[Breach]:
    if state.prompt != user_prompt(state.track, state.focus):
        yield Breach("prompt", "words beyond track and stage")
    if not re.fullmatch(r"[0-9a-f]{32}|public", state.patient):
        yield Breach("patient", "not a keyed pseudonym")
    for path in (*state.files, *state.hidden):
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
            yield Breach("file name", "leaves the workspace")


def _parts(state: TrainingState) -> Iterator[tuple[str, Layer]]:
    """Every layer of every part of a state, named by position so that a file's name cannot leak through a finding."""
    facts = "\n".join([state.prompt, *state.condition.keys(), *state.condition.values(), *state.files, *state.hidden])
    sections: Sequence[tuple[str, Iterable[bytes]]] = (
        ("prompt, condition and file names", [facts.encode()]),
        ("public file", state.files.values()),
        ("hidden file", state.hidden.values()),
    )
    for section, contents in sections:
        for number, content in enumerate(contents, 1):
            for layer in layers(content):
                yield f"{section} {number}", layer


def _identify(state: TrainingState) -> str:
    try:
        return state.state_id
    except Exception:  # a state without a computable id is rejected all the same
        return ""
