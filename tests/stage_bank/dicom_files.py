"""Small DICOM data sets for the ingest tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

KEY = b"the site's secret, for tests only"


def picture(seed: int = 0, size: int = 64) -> np.ndarray:
    """A 12-bit image with structure."""
    rng = np.random.default_rng(seed)
    ramp = np.add.outer(np.arange(size), np.arange(size)) * 20
    return (ramp + rng.integers(0, 300, (size, size))).astype(np.uint16) & 0x0FFF


def ct(patient: str = "A-17", pixels: np.ndarray | None = None, **values: Any) -> FileDataset:
    """A CT image of one patient; `values` set or, when `None`, remove attributes."""
    pixels = picture() if pixels is None else pixels
    origin = [patient, str(pixels.shape), str(pixels.tobytes())]  # equal arguments give equal UIDs
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=origin)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset("", {}, preamble=b"\0" * 128, file_meta=meta)
    dataset.SOPClassUID = CTImageStorage
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    dataset.StudyInstanceUID = generate_uid(entropy_srcs=["study", *origin])
    dataset.SeriesInstanceUID = generate_uid(entropy_srcs=["series", *origin])
    dataset.PatientID = patient
    dataset.Modality = "CT"
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.Rows, dataset.Columns = pixels.shape[-2:]
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 16, 12, 11
    dataset.PixelRepresentation = 0
    if pixels.ndim == 3:
        dataset.NumberOfFrames = len(pixels)
    dataset.add_new("PixelData", "OW", pixels.astype("<u2").tobytes())
    for keyword, value in values.items():
        if value is None:
            delattr(dataset, keyword)
        else:
            setattr(dataset, keyword, value)
    return dataset


def write(dataset: FileDataset, path: Path) -> Path:
    """Save with preamble and meta group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(path)
    return path
