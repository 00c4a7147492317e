"""Label files: classes, boxes, and what is wrong with them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import ConfigurationError
from stage_bank.ingest import IngestResult, Reason, Status, ingest_folder
from stage_bank.ingest.references import LabelReferences, Together
from tests.stage_bank.dicom_files import KEY, ct, picture, write

SERIES = {"SeriesInstanceUID": "1.2.3", "BodyPartExamined": "CHEST"}


def share(folder: Path) -> Path:
    """Three pictures: `a/0.dcm` (48 rows, 96 columns) and `a/1.dcm` of one series, `b.dcm` of another."""
    wide = picture(0, 96)[:48]
    write(ct("P-1", wide, SOPInstanceUID="1.2.3.0", **SERIES), folder / "a/0.dcm")
    write(ct("P-1", picture(1, 64), SOPInstanceUID="1.2.3.1", **SERIES), folder / "a/1.dcm")
    write(ct("P-2", picture(2, 64)), folder / "b.dcm")
    return folder


def labelled(tmp_path: Path, text: str, name: str = "labels.csv") -> tuple[dict[int, np.ndarray | None], IngestResult]:
    """Findings by number of the picture, and the result."""
    folder = share(tmp_path / "share")
    (tmp_path / name).write_text(text)
    result = ingest_folder(folder, KEY, references=LabelReferences(tmp_path / name, folder))
    assert len(result.images) == 3
    masks: dict[int, np.ndarray | None] = {}
    for image in result.images:
        number = 0 if image.pixels.shape == (48, 96) else 1 if image.patient == _patient_of_first(result) else 2
        masks[number] = image.picture.findings
    return masks, result


def _patient_of_first(result: IngestResult) -> str:
    return next(image.patient for image in result.images if image.pixels.shape == (48, 96))


def reasons(result: IngestResult, name: str = "labels.csv") -> list[tuple[Status, Reason]]:
    return [(file.status, file.reason) for file in result.report.files if file.path.startswith(name)]


def box(shape: tuple[int, int], left: int, top: int, right: int, bottom: int) -> np.ndarray:
    mask = np.zeros(shape, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def test_classes_by_file_and_series(tmp_path: Path) -> None:
    masks, result = labelled(tmp_path, "kind,value,label\nseries,1.2.3,Normal\nfile,b.dcm,nodule\n")
    assert masks[0] is not None
    assert masks[1] is not None
    assert masks[2] is not None
    assert not masks[0].any()
    assert not masks[1].any()
    assert masks[2].all()
    assert reasons(result) == [(Status.TAKEN, Reason.REFERENCE)] * 2


def test_boxes_add_up_and_touch_whole_pixels(tmp_path: Path) -> None:
    rows = ["kind,value,label,left,top,right,bottom,frame,rows,columns"]
    rows += ["file,a/0.dcm,mass,80.5,10,90.2,20.1,,48,96", "instance,1.2.3.0,mass,0,0,2,1,0,,"]
    masks, _ = labelled(tmp_path, "\n".join(rows))
    assert np.array_equal(masks[0], box((48, 96), 80, 10, 91, 21) | box((48, 96), 0, 0, 2, 1))
    assert masks[1] is None
    assert masks[2] is None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("file,a/0.dcm,mass,80,10,97,20,,,", Reason.REFERENCE_OUTSIDE),
        ("file,a/0.dcm,mass,-1,10,90,20,,,", Reason.REFERENCE_OUTSIDE),
        ("file,a/0.dcm,mass,8,10,9,20,,96,48", Reason.REFERENCE_SHAPE),
        ("file,a/0.dcm,mass,8,10,9,20,1,,", Reason.REFERENCE_UNUSED),
        ("file,../share/b.dcm,mass,8,10,9,20,,,", Reason.REFERENCE_UNUSED),
    ],
)
def test_what_does_not_fit_is_refused_by_line(tmp_path: Path, row: str, reason: Reason) -> None:
    head = "kind,value,label,left,top,right,bottom,frame,rows,columns\n"
    masks, result = labelled(tmp_path, head + row)
    assert masks[0] is None
    assert reasons(result) == [(Status.REFUSED, reason)]


def test_coco(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": "a/0.dcm", "height": 48, "width": 96}]
    images += [{"id": 8, "file_name": "b.dcm", "height": 64, "width": 64}]
    images += [{"id": 9, "file_name": "a/1.dcm", "height": 32, "width": 32}]
    annotations = [{"image_id": 7, "bbox": [80, 10, 5, 4]}, {"image_id": 9, "bbox": [0, 0, 3, 3]}]
    text = json.dumps({"images": images, "annotations": annotations})
    masks, result = labelled(tmp_path, text, "labels.json")
    assert np.array_equal(masks[0], box((48, 96), 80, 10, 85, 14))
    assert masks[1] is None
    assert masks[2] is not None
    assert not masks[2].any()
    assert reasons(result, "labels.json")[2] == (Status.REFUSED, Reason.REFERENCE_SHAPE)


def test_plain_json(tmp_path: Path) -> None:
    rows = [{"series": "1.2.3", "boxes": [[1, 2, 3, 4], [5, 6, 7, 8]]}, {"file": "b.dcm", "boxes": []}]
    masks, _ = labelled(tmp_path, json.dumps(rows), "labels.json")
    assert np.array_equal(masks[1], box((64, 64), 1, 2, 3, 4) | box((64, 64), 5, 6, 7, 8))
    assert masks[2] is not None
    assert not masks[2].any()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", "file,label\nx,y\n"),
        ("labels.csv", "kind,value,label\npatient,x,mass\n"),
        ("labels.csv", "kind,value,label\nfile,x\n"),
        ("labels.csv", "kind,value,label,left\nfile,x,mass,3\n"),
        ("labels.csv", "kind,value,label,left,top,right,bottom\nfile,x,normal,1,1,2,2\n"),
        ("labels.csv", "kind,value,label,left,top,right,bottom\nfile,x,mass,2,1,1,2\n"),
        ("labels.csv", "kind,value,label,left,top,right,bottom\nfile,x,mass,1,1,nan,2\n"),
        ("labels.json", "{"),
        ("labels.json", "7"),
        ("labels.json", "{}"),
        ("labels.json", '[{"file": "x", "series": "y", "boxes": []}]'),
        ("labels.json", '[{"file": 3, "boxes": []}]'),
        ("labels.json", '[{"file": "x", "boxes": [[1, 2, 3]]}]'),
        ("labels.json", '{"images": [], "annotations": [{"image_id": 1, "bbox": [1, 1, 1, 1]}]}'),
        ("labels.json", "[" * 100_000),
    ],
)
def test_a_file_of_another_form_is_one_clear_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        LabelReferences(tmp_path / name, tmp_path)
    assert str(tmp_path / name) in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(["x.csv", "x.json"]))
def test_bytes_of_any_kind_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("labels") / name
    path.write_bytes(b"kind,value,label\n" + data if name == "x.csv" else data)
    with suppress(ConfigurationError):
        LabelReferences(path, path.parent)


def test_sources_together_mark_what_any_marks(tmp_path: Path) -> None:
    folder = share(tmp_path / "share")
    (tmp_path / "one.csv").write_text("kind,value,label\nfile,b.dcm,normal\n")
    (tmp_path / "two.json").write_text('[{"file": "b.dcm", "boxes": [[0, 0, 5, 5]]}]')
    sources = [LabelReferences(tmp_path / name, folder) for name in ("one.csv", "two.json")]
    result = ingest_folder(folder, KEY, references=Together(sources))
    marked = [image.picture.findings for image in result.images if image.picture.findings is not None]
    assert len(marked) == 1
    assert np.array_equal(marked[0], box((64, 64), 0, 0, 5, 5))
    assert {(file.path, file.reason) for file in result.report.files} >= {
        ("one.csv, 2", Reason.REFERENCE),
        ("two.json, 1", Reason.REFERENCE),
    }
