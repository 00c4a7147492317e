"""Public images for demonstrations and held-out suites, from files that ship in PyPI packages.

Nothing is stored here: the files are read where pydicom, pydicom-data, nibabel and scikit-image installed them, under
those packages' terms. No source stands in two splits, and none is at a sample site (`deploy.sample_sites`), so that a
held-out score can never be earned by remembering an image.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import nibabel
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from common.canonical import digest_file
from common.errors import ConfigurationError, DataError
from stage_bank.deidentify import Options, TextCheck, deidentify
from stage_bank.dicom.read import read_dataset
from stage_bank.ingest.render import render, shrink, stretch
from stage_bank.picture import Picture

__all__ = ["SPLITS", "PublicImage", "Split", "public_images"]

Split: TypeAlias = Literal["demonstrations", "gate", "sealed"]
SPLITS: tuple[Split, ...] = get_args(Split)

_PUBLIC_KEY = b"public images need no secret key"
_PUBLIC = Options(text=TextCheck.NONE)


@dataclass(frozen=True)
class PublicImage:
    """One public picture.

    Args:
        source: package and subject; pictures of one subject share it.
        source_digest: SHA-256 of the package's file, 64 hex digits.
        pixels: float32 `[height, width]` in [0, 1], 48 to 512 pixels a side.
    """

    source: str
    source_digest: str
    pixels: NDArray[np.float32]

    @property
    def picture(self) -> Picture:
        """The picture as fabrication takes it."""
        return Picture(self.pixels)


@dataclass(frozen=True)
class _Source:
    """One file of a package.

    Args:
        subject: package and subject.
        package: importable name of the package.
        file: path inside it.
        cuts: frame numbers (DICOM) or axial slice numbers (volume); ignored for a flat picture.
        crop: top, bottom, left, right as fractions: the part without text and frame.
        zoom: enlargement of a volume's slices, for volumes of few voxels.
    """

    subject: str
    package: str
    file: str
    cuts: tuple[int, ...] = (0,)
    crop: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 1.0)
    zoom: int = 1


_PYDICOM = "data/test_files/"
_SOURCES: Mapping[Split, tuple[_Source, ...]] = {
    "demonstrations": (
        _Source("pydicom-data:98279", "data_store", "data/gdcm-US-ALOKA-16.dcm", crop=(0.16, 0.82, 0.08, 0.48)),
        _Source("pydicom-data:98279", "data_store", "data/gdcm-US-ALOKA-16_big.dcm", crop=(0.16, 0.82, 0.52, 0.9)),
        _Source(
            "pydicom-data:Citizen", "data_store", "data/JPGLosslessP14SV1_1s_1f_8b.dcm", crop=(0.2, 0.75, 0.3, 0.7)
        ),
        _Source("nibabel:scaled", "nibabel", "tests/data/scaled+tlrc.HEAD", cuts=(14, 20, 26, 32), zoom=2),
        _Source("scikit-image:microaneurysms", "skimage", "data/microaneurysms.png"),
        _Source("scikit-image:ihc", "skimage", "data/ihc.png"),
        _Source("scikit-image:cell", "skimage", "data/cell.png", crop=(0.2, 0.9, 0.3, 1.0)),
    ),
    "gate": (
        _Source("pydicom:JXD191021006", "pydicom", _PYDICOM + "J2K_pixelrep_mismatch.dcm", crop=(0.05, 0.85, 0.1, 0.9)),
        _Source("nibabel:example4d", "nibabel", "tests/data/example4d.nii.gz", cuts=(5, 8, 11, 14, 17, 20)),
        _Source(
            "pydicom:204", "pydicom", _PYDICOM + "examples_ybr_color.dcm", cuts=(0, 14), crop=(0.1, 0.85, 0.28, 0.72)
        ),
    ),
    "sealed": (
        _Source("pydicom-data:b2cbe507f250", "data_store", "data/bad_sequence.dcm"),
        _Source("nibabel:anatomical", "nibabel", "tests/data/anatomical.nii", cuts=(4, 7, 10, 13, 16, 19), zoom=2),
        _Source("pydicom-data:13US1", "data_store", "data/US1_UNCR.dcm", crop=(0.25, 0.75, 0.2, 0.95)),
    ),
}


def public_images(split: Split) -> list[PublicImage]:
    """All pictures of one split, in a fixed order.

    Raises:
        ConfigurationError: no such split.
        DataError: a package or a file of it is missing.
    """
    if split not in _SOURCES:
        raise ConfigurationError("unknown split of public images", where=split, remedy=f"Use one of {SPLITS}.")
    _assert_disjoint()
    images = []
    for source in _SOURCES[split]:
        path = _locate(source)
        digest = digest_file(path)
        images += [PublicImage(source.subject, digest, pixels) for pixels in _read(path, source)]
    return images


def _assert_disjoint() -> None:
    """No subject and no file content stands in two splits."""
    for facts in (
        {s: {x.subject for x in xs} for s, xs in _SOURCES.items()},
        {s: {digest_file(_locate(x)) for x in xs} for s, xs in _SOURCES.items()},
    ):
        union = set().union(*facts.values())
        assert len(union) == sum(len(part) for part in facts.values()), "a public source stands in two splits"


def _locate(source: _Source) -> Path:
    spec = importlib.util.find_spec(source.package)
    if spec is None or spec.origin is None:
        raise DataError("public images are not installed", where=source.package, remedy="Run `make setup`.")
    path = Path(spec.origin).parent / source.file
    if not path.is_file():
        raise DataError("a public image is missing from its package", where=str(path), remedy="Run `make setup`.")
    return path


def _read(path: Path, source: _Source) -> list[NDArray[np.float32]]:
    if path.suffix == ".dcm":
        pictures = render(deidentify(read_dataset(path), _PUBLIC_KEY, frames=source.cuts, options=_PUBLIC))
    elif path.suffix == ".png":
        pictures = [np.asarray(Image.open(path).convert("L"), dtype=np.float32) / np.float32(255.0)]
    else:
        pictures = _slices(path, source)
    return [_crop(picture, source.crop) for picture in pictures]


def _slices(path: Path, source: _Source) -> list[NDArray[np.float32]]:
    """Axial slices, anterior up, stretched over the whole volume's range so that slices stay comparable."""
    volume = np.asarray(nibabel.load(path).dataobj, dtype=np.float32)  # type: ignore[attr-defined]
    volume = volume[..., 0] if volume.ndim == 4 else volume
    low, high = (float(value) for value in np.percentile(volume, (0.5, 99.5)))
    pictures = []
    for cut in source.cuts:
        picture = stretch(volume[:, :, cut].T[::-1], low, high)
        size = (picture.shape[1] * source.zoom, picture.shape[0] * source.zoom)
        enlarged = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC), dtype=np.float32)
        pictures.append(shrink(enlarged.clip(0.0, 1.0)))
    return pictures


def _crop(picture: NDArray[np.float32], crop: tuple[float, float, float, float]) -> NDArray[np.float32]:
    height, width = picture.shape
    top, bottom, left, right = crop
    return picture[round(top * height) : round(bottom * height), round(left * width) : round(right * width)].copy()
