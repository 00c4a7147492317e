"""The target wall: a state shows its agent no answer, no demonstration and no transcript.

The inputs (cases, exemplars, task) are searched for the hidden references, byte for byte and as arrays under flips,
turns, inversion and change of scale; every public text is searched for turns of a dialogue and for commands. Outputs
that a real run of earlier stages left are no inputs: they may be right, as a good handoff is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rubrics.layout import is_input
from stage_bank.state import TrainingState
from stage_bank.walls.breach import Breach
from stage_bank.walls.contents import read_array, read_text

__all__ = ["TargetWall"]

_REFERENCES = ("references/", "second/references/")
_SHORTEST = 24
"""Bytes; shorter files are alike by chance."""

_ALIKE = 0.02
"""Largest difference, in standard deviations, of two arrays that are the same but for rounding."""

_DIALOGUE = re.compile(
    r"<\|?/?(?:tool_call|tool_response|im_start|im_end|assistant)\|?>"
    r"|[\"']role[\"']\s*:\s*[\"'](?:assistant|tool)[\"']"
    r"|[\"']execute_code[\"']",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\bbat (?:plan|check|setup|pilot|verify|infer|submit)\b")
_ANSWER_KEYS = frozenset({"answer", "truth", "reference", "solution", "ground_truth", "predicted_label", "condition"})


class TargetWall:
    """Checks states against their own hidden side."""

    def breaches(self, state: TrainingState) -> list[Breach]:
        """All findings in one state; none when it may be admitted. What cannot be searched is a finding."""
        try:
            return [*_texts(state), *_references(state)]
        except Exception as error:  # fail closed, whatever a strange state makes a parser do
            return [Breach("state", f"cannot be compared with its references: {type(error).__name__}")]


def _texts(state: TrainingState) -> Iterator[Breach]:
    for number, (path, data) in enumerate([("prompt", state.prompt.encode()), *state.files.items()]):
        where = "prompt" if number == 0 else f"public file {number}"
        text = read_text(path, data)
        if _DIALOGUE.search(text):
            yield Breach(where, "turn of a dialogue")
        if _COMMAND.search(text):
            yield Breach(where, "command of the toolkit")
        if path.startswith("cases/") and path.endswith(".json") and _ANSWER_KEYS & _keys(text):
            yield Breach(where, "field that holds an answer")


def _keys(text: str) -> set[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return {str(key).lower() for key in value} if isinstance(value, dict) else set()


def _references(state: TrainingState) -> Iterator[Breach]:
    hidden = {path: data for path, data in state.hidden.items() if path.startswith(_REFERENCES)}
    contents = {data for data in hidden.values() if len(data) >= _SHORTEST}
    arrays = [form for path, data in hidden.items() if (form := _normal(read_array(path, data))) is not None]
    for number, (path, data) in enumerate(state.files.items(), 1):
        if not is_input(path):
            continue
        if data in contents:
            yield Breach(f"public file {number}", "hidden reference")
            continue
        array = _normal(read_array(path, data))
        if array is not None and any(_same(array, other) for other in arrays):
            yield Breach(f"public file {number}", "hidden reference in another form")


def _normal(array: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
    """Mean 0, deviation 1; `None` for what has none or is not finite."""
    if array is None or not np.isfinite(array).all() or array.std() < 1e-9:
        return None
    normal: npt.NDArray[np.float64] = (array - array.mean()) / array.std()
    return normal


def _same(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    for form in (other, other.T):
        for turns in range(4):
            turned = np.rot90(form, turns)
            if turned.shape == one.shape:
                product = float(np.mean(one * turned))
                if abs(product) > 1 - _ALIKE**2 / 2 and np.abs(one - np.sign(product) * turned).max() < 1.0:
                    return True
    return False
