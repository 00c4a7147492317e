"""One NIfTI volume: read with bounded memory, and cut into slices as a reader looks at them.

Only the header and the voxels of the first volume are parsed. Extensions, where programs leave whole DICOM headers, are
never interpreted; their bytes are searched for strings that may name a patient.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from nibabel.nifti1 import Nifti1PairHeader
from nibabel.nifti2 import Nifti2PairHeader
from numpy.typing import NDArray

from stage_bank.deidentify.heads import Slice
from stage_bank.dicom.identifiers import MIN_LENGTH, runs
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason

__all__ = ["MAX_BYTES", "Volume", "read_volume"]

MAX_BYTES = 512 << 20
"""Of the stored voxels of one volume."""

_HEADERS: dict[int, Any] = {348: Nifti1PairHeader, 540: Nifti2PairHeader}
"""By size. Of single files, too, these classes read the header alone."""
_MAX_EXTENSIONS = 16 << 20
_TEXTS = ("descrip", "aux_file", "intent_name", "db_name")
_FLIP = np.diag([-1.0, -1.0, 1.0, 1.0])
"""NIfTI counts to the right and to the front, DICOM to the left and to the back."""
_VIEWS = {0: ((1, 1), (2, -1)), 1: ((0, 1), (2, -1)), 2: ((0, 1), (1, 1))}
"""By the coordinate across the slices: coordinate and sign to the right of the picture, and to its bottom."""
_RECTANGULAR = 0.01
"""Cosine between rows and columns, at most."""


@dataclass(frozen=True)
class Volume:
    """Voxels as stored, and where they lie.

    Args:
        stored: `[i, j, k]`, numbers as stored.
        slope: times the stored number, plus
        intercept: is the value.
        affine: `[4, 4]`, voxel indices to mm, right, anterior, superior, as in the file.
        texts: strings of the header and its extensions.
    """

    stored: NDArray[np.generic]
    slope: float
    intercept: float
    affine: NDArray[np.float64]
    texts: frozenset[str]

    @property
    def spacing(self) -> NDArray[np.float64]:
        """Edges of a voxel in mm, by axis."""
        return np.asarray(np.linalg.norm(self.affine[:3, :3], axis=0))

    @property
    def axis(self) -> int:
        """The axis across the slices: that of the widest spacing, or, where none stands out, the steepest one."""
        spacing = self.spacing
        if spacing.max() > 1.5 * np.median(spacing):
            return int(np.argmax(spacing))
        return int(np.argmax(np.abs(self.affine[2, :3]) / spacing))

    def values(self, index: int) -> NDArray[np.float32]:
        """A slice across `axis`, rescaled, turned as a reader looks at it: `[rows, columns]`.

        Seen from below, from the front or from the left: rows run to the back or down, columns to the left or the back.
        Only axes are swapped and reversed; nothing is resampled.
        """
        plane = self.slice(index).astype(np.float32)
        return np.asarray(plane * np.float32(self.slope) + np.float32(self.intercept))

    def slice(self, index: int) -> NDArray[np.generic]:
        """The same, with numbers as stored."""
        down, across = self._in_plane()
        plane = np.take(self.stored, index, axis=self.axis)
        if down[0] > across[0]:
            plane = plane.T
        return np.asarray(plane[:: down[1], :: across[1]])

    def place(self, index: int) -> Slice:
        """Where that slice lies, in DICOM's coordinates."""
        (down, down_sign), (across, across_sign) = self._in_plane()
        affine = _FLIP @ self.affine
        first = np.zeros(4)
        first[[self.axis, 3]] = index, 1.0
        for axis, sign in ((down, down_sign), (across, across_sign)):
            first[axis] = self.stored.shape[axis] - 1 if sign < 0 else 0
        spacing = self.spacing
        return Slice(
            position=(affine @ first)[:3],
            across=across_sign * affine[:3, across] / spacing[across],
            down=down_sign * affine[:3, down] / spacing[down],
            spacing=(float(spacing[down]), float(spacing[across])),
            rows=self.stored.shape[down],
            columns=self.stored.shape[across],
        )

    def _in_plane(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Axis and direction (1 or -1) of rising rows, and of rising columns."""
        directions = (_FLIP @ self.affine)[:3, :3] / self.spacing
        (right, right_sign), (low, low_sign) = _VIEWS[int(np.argmax(np.abs(directions[:, self.axis])))]
        one, other = (axis for axis in range(3) if axis != self.axis)
        strength = np.abs(directions[right])
        across, down = (one, other) if strength[one] >= strength[other] else (other, one)
        return (
            (down, 1 if directions[low, down] * low_sign >= 0 else -1),
            (across, 1 if directions[right, across] * right_sign >= 0 else -1),
        )


def read_volume(path: Path) -> Volume:
    """Read the first volume of a NIfTI file, compressed or not.

    Raises:
        Refused: damaged, too large, not of plain numbers, or with an affine that no rectangular pixels have.
    """
    try:
        with cast(IO[bytes], gzip.open(path)) if path.name.endswith(".gz") else path.open("rb") as stream:
            return _read(stream)
    except Refused:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(Reason.NIFTI_DAMAGED) from error
    except Exception as error:  # hostile headers make the parser raise many types; all mean the same to the site
        raise Refused(Reason.NIFTI_DAMAGED) from error


def _read(stream: IO[bytes]) -> Volume:
    start = stream.read(4)
    size = next((size for size in _HEADERS if start in (size.to_bytes(4, "little"), size.to_bytes(4, "big"))), None)
    if size is None:
        raise Refused(Reason.NIFTI_DAMAGED)
    header = _HEADERS[size](start + stream.read(size - 4), check=False)
    if bytes(header["magic"])[:2] != b"n+":
        raise Refused(Reason.NIFTI_DAMAGED)
    shape, dtype = tuple(int(length) for length in header.get_data_shape()), header.get_data_dtype()
    if not 2 <= len(shape) <= 4 or min(shape) < 1:
        raise Refused(Reason.NIFTI_AXES)
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise Refused(Reason.NIFTI_COLOUR)
    shape = (*shape, 1)[:3]
    length = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if length > MAX_BYTES:
        raise Refused(Reason.NIFTI_TOO_LARGE)
    between = int(header["vox_offset"]) - size
    if not 0 <= between <= _MAX_EXTENSIONS:
        raise Refused(Reason.NIFTI_DAMAGED)
    extensions = stream.read(between)
    data = stream.read(length)
    if len(data) < length:
        raise Refused(Reason.NIFTI_DAMAGED)
    slope, intercept = header.get_slope_inter()
    texts = {bytes(header[name]).rstrip(b"\0 ").decode("latin-1") for name in _TEXTS if name in header} | runs(
        extensions
    )
    volume = Volume(
        np.frombuffer(data, dtype).reshape(shape, order="F"),
        1.0 if slope is None else float(slope),
        0.0 if intercept is None else float(intercept),
        _affine(header),
        frozenset(text for text in texts if len(text) >= MIN_LENGTH),
    )
    place = volume.place(0)
    if abs(float(place.across @ place.down)) > _RECTANGULAR:
        raise Refused(Reason.NIFTI_AXES)
    return volume


def _affine(header: Any) -> NDArray[np.float64]:
    affine = np.asarray(header.get_best_affine(), dtype=np.float64)
    if not np.isfinite(affine).all() or np.linalg.norm(affine[:3, :3], axis=0).min() <= 0:
        raise Refused(Reason.NIFTI_AXES)
    return affine
