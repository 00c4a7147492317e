import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_bank.deidentify.heads import Slice
from stage_bank.ingest import ingest_folder
from stage_bank.ingest.geometry import Issue, evenly, series_issues, stacks
from tests.stage_bank.dicom_files import KEY, ct, picture, write

AXIAL = (np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
SAGITTAL = (np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, -1.0]))


def at(z: float, y: float = 0.0, spacing: float = 1.0, rows: int = 64, directions=AXIAL) -> Slice:
    return Slice(np.array([0.0, y, z]), *directions, (spacing, spacing), rows, 64)


def issues(places: list[Slice | None]) -> set[Issue]:
    return set(series_issues(places, stacks(places)))


def test_order_follows_the_position_and_nothing_else():
    heights = [5.0, 1.0, 4.0, 2.0, 3.0]
    (stack,) = stacks([at(z) for z in heights])
    assert [heights[index] for index in stack.order] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert not stack.issues


@given(st.permutations(range(9)), st.floats(0.5, 5.0), st.floats(-1.4, 1.4), st.floats(0.0, 6.0))
def test_any_orientation_is_ordered_along_its_normal(order, step, pitch, turn):
    across = np.array([np.cos(turn), np.sin(turn), 0.0])
    normal = np.array([-np.sin(turn) * np.sin(pitch), np.cos(turn) * np.sin(pitch), np.cos(pitch)])
    down = np.cross(normal, across)
    places = [Slice(normal * step * number, across, down, (1.0, 1.0), 8, 8) for number in order]
    (stack,) = stacks(places)
    assert [order[index] for index in stack.order] == list(range(9))
    assert not stack.issues


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([at(z) for z in (0, 1, 2, 4, 5)], {Issue.MISSING}),
        ([at(z) for z in (0, 1, 1, 2)], {Issue.DUPLICATE}),
        ([at(z, y=z * np.tan(np.radians(15))) for z in range(5)], {Issue.TILT}),
        ([at(z, y=z * np.tan(np.radians(0.1))) for z in range(5)], set()),
        ([at(0), at(1), at(0, directions=SAGITTAL)], {Issue.ORIENTATIONS}),
        ([at(0), at(1), at(2, rows=32)], {Issue.ORIENTATIONS}),
        ([at(0), at(1), at(2, spacing=2.0)], {Issue.SPACINGS}),
        ([at(0), at(1), None], {Issue.NO_GEOMETRY}),
    ],
)
def test_what_is_wrong_is_named(places, expected):
    assert issues(places) == expected


def test_stacks_are_divided_with_the_largest_first_and_lost_slices_last():
    places = [at(0, directions=SAGITTAL), None, at(2), at(1), at(3)]
    assert [stack.order for stack in stacks(places)] == [(3, 2, 4), (0,), (1,)]


@given(st.integers(0, 400), st.integers(1, 20))
def test_every_slice_is_named_once_and_the_first_ones_are_spread(count, wanted):
    order = evenly(count, wanted)
    assert sorted(order) == list(range(count))
    first = order[:wanted]
    assert first == sorted(first)
    if count > 2 * wanted:
        steps = np.diff(first)
        assert steps.size == 0 or steps.max() - steps.min() <= 1


def test_a_folder_gives_the_middle_slices_by_position_whatever_files_are_called(tmp_path):
    heights = np.random.default_rng(3).permutation(40)
    pixels = {int(z): picture(int(z)) for z in heights}
    for name, z in enumerate(heights):
        write(
            ct(
                "P-1",
                pixels[int(z)],
                SeriesInstanceUID="1.2.3",
                StudyInstanceUID="1.2",
                BodyPartExamined="CHEST",
                InstanceNumber=int(heights[-name]),
                ImagePositionPatient=[0, 0, int(z) * 2],
                ImageOrientationPatient=[1, 0, 0, 0, 1, 0],
                PixelSpacing=[1, 1],
            ),
            tmp_path / f"{name}.dcm",
        )
    result = ingest_folder(tmp_path, KEY)
    assert len({image.series for image in result.images}) == 1
    shown = [
        min(pixels, key=lambda z: np.abs(pixels[z] / pixels[z].max() - image.pixels / image.pixels.max()).mean())
        for image in result.images
    ]
    assert shown == sorted(shown)
    assert len(shown) == 8
    assert 4 <= shown[0] < shown[-1] < 36
    assert set(np.diff(shown)) == {4}
    assert result.report.counts["spare"] == 32
    assert result.report.series == ()


def test_the_report_names_a_series_with_a_missing_slice_by_its_pseudonym(tmp_path):
    for z in (0, 1, 2, 5, 6):
        values = {"ImagePositionPatient": [0, 0, z], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}
        values |= {"SeriesInstanceUID": "1.2.3", "StudyInstanceUID": "1.2", "PixelSpacing": [1, 1]}
        write(ct("P-1", picture(z), **values), tmp_path / f"{z}.dcm")
    (series,) = ingest_folder(tmp_path, KEY).report.series
    assert (series.files, series.issues) == (5, (Issue.MISSING.value,))
    assert "1.2.3" not in series.series
