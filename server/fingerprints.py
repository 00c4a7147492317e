"""Fingerprints of the held-out suites for the sites, signed by the server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from common.signing import SigningKey
from common.stages import Focus, Track
from server.heldout import load_suite
from stage_bank.images import Split, public_images
from stage_bank.prompts import SYSTEM_PROMPT, user_prompt
from stage_bank.state import TrainingState
from stage_bank.walls import fingerprint_suites, sign_fingerprints
from stage_bank.walls.contents import read_array, read_text

__all__ = ["suite_fingerprints"]

_HELD_OUT: tuple[Split, ...] = tuple(split for split in get_args(Split) if split != "demonstrations")


def suite_fingerprints(folder: Path, signer: SigningKey) -> bytes:
    """Fingerprint both suites of a folder: their source pictures, and the pictures and texts of their tasks.

    Texts that every site's states hold as well (prompts, and whatever stands in tasks of both suites) are boilerplate.

    Args:
        folder: holds `gate.jsonl` and `sealed.jsonl`.
        signer: the server's key.

    Returns:
        The signed set as JSON, under a fresh random key.

    Raises:
        DataError: a suite cannot be read.
    """
    suites = {split: load_suite(folder / f"{split}.jsonl").states for split in _HELD_OUT}
    pictures: list[npt.NDArray[np.floating]] = [image.pixels for split in _HELD_OUT for image in public_images(split)]
    pictures += [picture for states in suites.values() for state in states for picture in _pictures(state)]
    texts = {split: {text for state in states for text in _texts(state)} for split, states in suites.items()}
    shared = set.intersection(*texts.values())
    prompts = [SYSTEM_PROMPT, *(user_prompt(track, focus) for track in Track for focus in Focus)]
    prints = fingerprint_suites(os.urandom(32), pictures, set.union(*texts.values()) - shared, [*prompts, *shared])
    return sign_fingerprints(prints, signer)


def _pictures(state: TrainingState) -> Iterator[npt.NDArray[np.float64]]:
    """Pictures of cases; exemplars and outputs of a handoff are made of the same pixels or of a command."""
    for path, data in state.files.items():
        if path.startswith("cases/") and (array := read_array(path, data)) is not None:
            yield array


def _texts(state: TrainingState) -> Sequence[str]:
    """Free texts of cases. A header has a closed vocabulary that every state of a site shares: it tells nothing."""
    return [
        text
        for path, data in state.files.items()
        if path.startswith("cases/") and not path.endswith("/header.json") and (text := read_text(path, data))
    ]
