"""A series cut from pydicom's CT slice, lying obliquely in the patient, and references drawn on it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydicom import dcmread
from pydicom.data import get_testdata_file
from pydicom.dataset import FileDataset
from pydicom.uid import generate_uid
from scipy.spatial.transform import Rotation

from stage_bank.ingest import FileReport, IngestResult, SeriesSource, ingest_folder
from stage_bank.ingest.references import DicomReferences
from tests.stage_bank.dicom_files import KEY

SIDE = 128
SPACING = (0.75, 0.5)
"""Between rows, between columns."""
STEP = 2.5


def turned(degrees: Sequence[float] = (10.0, -20.0, 30.0)) -> np.ndarray:
    """Columns: across, down, normal."""
    return np.asarray(Rotation.from_euler("xyz", degrees, degrees=True).as_matrix())


def real_series(folder: Path, count: int = 4, axes: np.ndarray | None = None, **values: object) -> list[FileDataset]:
    """Write `count` slices; each has pixels of its own, and its place is exact in the header."""
    axes = turned() if axes is None else axes
    path = get_testdata_file("CT_small.dcm")
    assert path is not None
    slices = []
    for number in range(count):
        dataset = copy.deepcopy(dcmread(path))
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = generate_uid()
        dataset.ImageOrientationPatient = [f"{round(v, 8):.10g}" for v in (*axes[:, 0], *axes[:, 1])]
        dataset.ImagePositionPatient = [f"{v:.10g}" for v in np.array([-30, 5, 70]) + number * STEP * axes[:, 2]]
        dataset.PixelSpacing = list(SPACING)
        dataset.SliceThickness = STEP
        dataset.InstanceNumber = number + 1
        dataset.BodyPartExamined = "CHEST"
        dataset.PixelData = np.roll(dataset.pixel_array, 7 * number, axis=0).tobytes()
        for keyword, value in values.items():
            setattr(dataset, keyword, value)
        folder.mkdir(parents=True, exist_ok=True)
        dataset.save_as(folder / f"{number}.dcm")
        slices.append(dataset)
    return slices


def random_masks(count: int, seed: int = 0) -> np.ndarray:
    """Boolean `[count, rows, columns]`; sparse, so that a shift by a pixel shows."""
    return np.random.default_rng(seed).random((count, SIDE, SIDE)) < 0.1


class Watched(DicomReferences):
    """Remembers what ingest asked."""

    def __init__(self) -> None:
        super().__init__(KEY)
        self.asked: list[SeriesSource] = []

    def findings_for(self, series: SeriesSource):
        self.asked.append(series)
        return super().findings_for(series)


def ingested(folder: Path) -> tuple[IngestResult, dict[str, np.ndarray | None], dict[str, FileReport]]:
    """Ingest with references: the result, findings by SOP instance UID and frame, and reports by path."""
    references = Watched()
    result = ingest_folder(folder, KEY, references=references)
    keys = [f"{one.instance_uid}/{one.frame}" for series in references.asked for one in series.pictures]
    findings = dict(zip(keys, (image.picture.findings for image in result.images), strict=True))
    return result, findings, {file.path: file for file in result.report.files}
