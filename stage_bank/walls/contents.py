"""Reading the files of a state for the walls: arrays and texts, whatever form they come in."""

from __future__ import annotations

import gzip
import io
import zlib

import numpy as np
import numpy.typing as npt

from stage_bank.skills.mask_form import decode_mask

__all__ = ["read_array", "read_text"]

_LARGEST_TEXT = 1 << 20


def read_array(path: str, data: bytes) -> npt.NDArray[np.float64] | None:
    """The two-dimensional array in a file, or `None` where it holds none."""
    try:
        if path.endswith(".npy"):
            array = np.load(io.BytesIO(data), allow_pickle=False)
        elif path.endswith(".nii.gz"):
            array = decode_mask(data)
        else:
            return None
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError, RecursionError):
        return None
    return array.astype(np.float64) if array.ndim == 2 and array.dtype.kind in "fiub" else None


def read_text(path: str, data: bytes) -> str:
    """The text in a file, also of a gzipped one; empty for anything else."""
    if path.endswith(".gz"):
        try:
            with gzip.open(io.BytesIO(data)) as stream:
                data = stream.read(_LARGEST_TEXT)
        except (OSError, EOFError, zlib.error):
            return ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text else text
