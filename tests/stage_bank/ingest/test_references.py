import numpy as np
import pytest

from stage_bank.dicom.walk import Found
from stage_bank.ingest import FileReport, SeriesSource, ingest_folder
from tests.stage_bank.dicom_files import KEY, ct, picture, write


class Corner:
    """Marks the upper left pixel block of every second picture."""

    def __init__(self, extra: int = 0) -> None:
        self.asked: list[SeriesSource] = []
        self._extra = extra

    def findings_for(self, series: SeriesSource) -> list[np.ndarray | None]:
        self.asked.append(series)
        masks: list[np.ndarray | None] = []
        for number, source in enumerate(series.pictures):
            mask = np.zeros((source.shape[0] + self._extra, source.shape[1]), dtype=bool)
            mask[:30, :10] = True
            masks.append(mask if number % 2 == 0 else None)
        return masks

    def offer(self, found: Found) -> None:
        raise AssertionError("no file here is a reference")

    def reports(self) -> list[FileReport]:
        return []


def test_masks_follow_their_pictures_through_shrinking(tmp_path):
    for z in range(2):
        values = {"ImagePositionPatient": [0, 0, z], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}
        values |= {"SeriesInstanceUID": "1.2.3", "StudyInstanceUID": "1.2", "PixelSpacing": [1, 1]}
        write(ct("P-1", picture(z, size=1024), BodyPartExamined="CHEST", **values), tmp_path / f"{z}.dcm")
    references = Corner()
    first, second = ingest_folder(tmp_path, KEY, references=references).images
    assert first.picture.findings is not None
    assert first.picture.findings.shape == first.pixels.shape == (512, 512)
    assert first.picture.findings.sum() == 15 * 5
    assert second.picture.findings is None
    (asked,) = references.asked
    assert (asked.series_uid, asked.study_uid, asked.patient) == ("1.2.3", "1.2", first.patient)
    assert [source.place.position[2] for source in asked.pictures if source.place] == [0.0, 1.0]
    assert [slice_.place.position[2] for slice_ in asked.slices if slice_.place] == [0.0, 1.0]


def test_a_mask_of_another_shape_is_a_defect_of_the_source(tmp_path):
    write(ct(), tmp_path / "x.dcm")
    with pytest.raises(ValueError, match="shape"):
        ingest_folder(tmp_path, KEY, references=Corner(extra=1))
