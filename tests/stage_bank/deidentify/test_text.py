"""Planted names in real frames: found and gone, on every frame, whatever their size and polarity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydicom.data import get_testdata_file
from pydicom.dataset import FileDataset
from pydicom.uid import ExplicitVRLittleEndian

from stage_bank.deidentify import Options, ProfileName, TextCheck, deidentify, deidentify_with, open_profile
from stage_bank.deidentify.text import Tesseract, clean_text, tesseract
from stage_bank.deidentify.text.glyphs import crispness, glyph_rows
from stage_bank.deidentify.text.needles import Needles, header_needles
from stage_bank.deidentify.text.regions import outside_regions
from stage_bank.dicom.decode import Decoded, decode_frames
from stage_bank.dicom.read import Refused, read_dataset
from stage_bank.ingest import Reason
from tests.stage_bank.dicom_files import KEY, ct

needs_tesseract = [
    pytest.mark.slow,
    pytest.mark.skipif(Tesseract.find() is None, reason="no language model of tesseract is installed"),
]
NAME = "HARTMANN^OTTO"
ULTRASOUND = "1.2.840.10008.5.1.4.1.1.6.1"


def speckle(size: tuple[int, int], seed: int = 0) -> NDArray[np.uint8]:
    """A sector-like picture with smooth noise, dark outside."""
    rng = np.random.default_rng(seed)
    noise = np.asarray(
        Image.fromarray(rng.random((size[0] // 3, size[1] // 3))).resize(size[::-1], Image.Resampling.BICUBIC)
    )
    row, column = np.mgrid[: size[0], : size[1]]
    inside = np.abs(column - size[1] / 2) < row * 0.7
    return np.where(inside, 30 + 110 * noise, 4).clip(0, 255).astype(np.uint8)


def write_on(
    frame: NDArray[np.uint8], text: str, at: tuple[int, int], size: int, shade: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The frame with a text, dark ones on a light ground, and where its letters are."""
    image, ink = Image.fromarray(frame), Image.new("L", frame.shape[1::-1])
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    if shade < 60:
        left, top, right, bottom = draw.textbbox(at, text, font=font)
        draw.rectangle((left - 4, top - 4, right + 4, bottom + 4), fill=220)
    draw.text(at, text, font=font, fill=shade)
    ImageDraw.Draw(ink).text(at, text, font=font, fill=255)
    return np.asarray(image), np.asarray(ink) > 127


def ultrasound(*frames: NDArray[np.uint8]) -> FileDataset:
    dataset = ct(PatientName=NAME, Modality="US", SOPClassUID=ULTRASOUND)
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 8, 8, 7
    dataset.Rows, dataset.Columns = frames[0].shape[:2]
    if len(frames) > 1:
        dataset.NumberOfFrames = len(frames)
    dataset["PixelData"].VR = "OB"
    dataset.PixelData = np.stack(frames).tobytes()
    return dataset


def blank(pixels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.asarray(pixels == pixels.min())


@pytest.mark.parametrize("shade", [255, 170, 10])
@pytest.mark.parametrize("size", [12, 16, 24, 40])
def test_rows_of_letters_are_found_without_reading_them(size, shade):
    drawn, letters = write_on(speckle((480, 640)), NAME, (30, 40), size, shade)
    found = np.zeros(drawn.shape, bool)
    for (left, top, width, height), _ in glyph_rows(drawn):
        found[top : top + height, max(0, left - height) : left + width + height] = True
    assert np.mean(found[letters]) > 0.9


def test_speckle_and_anatomy_hold_hardly_any_letters():
    boxes = glyph_rows(speckle((480, 640)))
    assert sum(width * height for (_, _, width, height), _ in boxes) < 0.01 * 480 * 640
    head = pydicom.dcmread(get_testdata_file("693_J2KI.dcm")).pixel_array.astype(float)
    grey = ((head - head.min()) / np.ptp(head) * 255).astype(np.uint8)
    assert glyph_rows(grey) == []
    assert crispness(speckle((480, 640)), (300, 300, 40, 12)) < 0.2
    drawn, _ = write_on(speckle((480, 640)), "LIVER", (30, 40), 16, 255)
    assert crispness(drawn, (30, 44, 46, 14)) > 0.2


def test_letters_in_a_tall_picture_are_found_wherever_they_stand():
    plain = speckle((2500, 300))
    for top in (10, 900, 925, 1000, 1850, 2450):
        drawn, letters = write_on(plain, NAME, (20, top), 20, 255)
        found = np.zeros(drawn.shape, bool)
        for (left, upper, width, height), _ in glyph_rows(drawn):
            found[upper : upper + height, max(0, left - height) : left + width + height] = True
        assert np.mean(found[letters]) > 0.9, top


def test_needles_match_what_is_read_badly_and_in_other_spellings():
    dataset = ct("MRN4711932", PatientName="Hartmann^Otto", PatientBirthDate="19570312")
    needles = header_needles(dataset)
    for read in ("HARTMANN", "Hartmamn", "MRN:4711932", "12.03.1957", "03/12/1957", "1957-03-12", "ARTMANN"):
        assert needles.match(read), read
    for read in ("Adult", "49Hz", "16cm", "TIS0.4", "", "Ott"):
        assert not needles.match(read), read
    assert not Needles(frozenset()).match("HARTMANN")


@pytest.mark.parametrize("modality", ["US", "XA", "ES", "OT", "RF", "SC"])
def test_without_the_reader_images_that_may_show_text_are_refused(monkeypatch, tmp_path, modality):
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    dataset = ct(Modality=modality, BurnedInAnnotation="NO")
    with pytest.raises(Refused) as refusal:
        deidentify(dataset, KEY)
    assert refusal.value.reason is Reason.NO_TEXT_SEARCH


@pytest.mark.parametrize(
    "values",
    [
        {"BurnedInAnnotation": "YES"},
        {"ImageType": ["DERIVED", "SECONDARY", "SCREEN SAVE"]},
        {"ConversionType": "WSD"},
        {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.7"},
    ],
)
def test_captures_are_refused_without_the_reader_whatever_the_modality_says(monkeypatch, tmp_path, values):
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    with pytest.raises(Refused) as refusal:
        deidentify(ct(**values), KEY)
    assert refusal.value.reason is Reason.NO_TEXT_SEARCH


def test_nothing_is_claimed_where_nothing_was_searched(monkeypatch, tmp_path):
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    for options in (Options(), Options(text=TextCheck.NONE), Options(text=TextCheck.ALL)):
        clean = deidentify(ct(BurnedInAnnotation="NO"), KEY, options=options)
        assert "BurnedInAnnotation" not in clean
        assert "113101" not in [entry.CodeValue for entry in clean.DeidentificationMethodCodeSequence]


def test_a_reader_that_fails_means_refusal(tmp_path, monkeypatch):
    (tmp_path / tesseract.MODEL).write_bytes(b"no model")
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    with pytest.raises(Refused) as refusal:
        deidentify(ultrasound(speckle((120, 160))), KEY)
    assert refusal.value.reason is Reason.TEXT_SEARCH_FAILED


@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2.4.100", "1.2.840.10008.1.2.4.102", "1.2.840.10008.1.2.4.107"])
def test_video_is_refused(syntax):
    dataset = ct()
    dataset.file_meta.TransferSyntaxUID = syntax
    with pytest.raises(Refused) as refusal:
        deidentify(dataset, KEY, options=Options(text=TextCheck.NONE))
    assert refusal.value.reason is Reason.VIDEO


def region(*corners: int) -> pydicom.Dataset:
    found = pydicom.Dataset()
    (
        found.RegionLocationMinX0,
        found.RegionLocationMinY0,
        found.RegionLocationMaxX1,
        found.RegionLocationMaxY1,
    ) = corners
    return found


def test_outside_the_device_regions():
    dataset = ct(SequenceOfUltrasoundRegions=[region(10, 20, 30, 40), region(0, 0, 4, 4)])
    outside = outside_regions(dataset, 64, 64)
    assert outside is not None
    assert int((~outside).sum()) == 21 * 21 + 5 * 5
    assert not outside[20, 10]
    assert outside[19, 10]
    for wrong in ([region(10, 20, 300, 40)], [region(30, 20, 10, 40)], [pydicom.Dataset()], []):
        assert outside_regions(ct(SequenceOfUltrasoundRegions=wrong), 64, 64) is None


class TestWithTesseract:
    pytestmark = needs_tesseract

    def test_a_page_that_takes_too_long_is_given_up(self, monkeypatch):
        program = Tesseract.find()
        assert program is not None
        monkeypatch.setattr(tesseract, "SECONDS_PER_PAGE", 0.01)
        with pytest.raises(Refused) as refusal:
            list(program.words([speckle((1800, 1800))]))
        assert refusal.value.reason is Reason.TEXT_SEARCH_FAILED
        monkeypatch.undo()
        assert list(program.words([speckle((60, 60))])) is not None

    def test_copies_of_a_page_are_read_once_and_every_page_keeps_its_number(self):
        program = Tesseract.find()
        assert program is not None
        written = write_on(np.zeros((120, 300), np.uint8), NAME, (20, 40), 24, 255)[0]
        pages = [np.zeros((50, 50), np.uint8), written, written.copy()]
        words = list(program.words(pages))
        assert {word.page for word in words} == {1, 2}
        assert [(w.text, w.box) for w in words if w.page == 1] == [(w.text, w.box) for w in words if w.page == 2]

    @pytest.mark.parametrize(("size", "shade"), [(12, 255), (16, 180), (24, 10), (40, 255)])
    def test_a_planted_name_is_gone_and_not_read_again(self, size, shade):
        frame, letters = write_on(speckle((480, 640)), NAME, (200, 300), size, shade)
        result = deidentify_with(ultrasound(frame), open_profile(ProfileName.MODIFIED_DATES, KEY), Options())
        after = result.dataset.pixel_array
        assert np.mean(blank(after)[letters]) > 0.97
        assert result.dataset.BurnedInAnnotation == "NO"
        assert "113101" in [entry.CodeValue for entry in result.dataset.DeidentificationMethodCodeSequence]
        program = Tesseract.find()
        assert program is not None
        big = np.asarray(Image.fromarray(after).resize((1280, 960)))
        needles = Needles(frozenset({"hartmann", "otto"}))
        assert not any(needles.match(word.text) for word in program.words([after, big, 255 - after]))

    def test_a_name_on_the_second_frame_only_is_blanked_on_all(self):
        first, second = speckle((240, 320), 1), write_on(speckle((240, 320), 2), NAME, (20, 20), 18, 255)[0]
        after = deidentify(ultrasound(first, second), KEY).pixel_array
        place = (slice(22, 36), slice(25, 120))
        assert blank(after[0])[place].mean() > 0.95
        assert blank(after[1])[place].mean() > 0.95
        assert (after[0] == first).mean() > 0.8

    def test_dropping_that_frame_leaves_the_other_as_it_is(self):
        first, second = speckle((240, 320), 1), write_on(speckle((240, 320), 2), NAME, (20, 20), 18, 255)[0]
        after = deidentify(ultrasound(first, second), KEY, frames=[0]).pixel_array
        assert (after == first).mean() > 0.8

    def test_text_outside_the_regions_of_the_device_goes_even_where_it_cannot_be_read(self):
        frame = speckle((240, 320))
        frame[5:25, 5:300] = np.random.default_rng(0).integers(0, 255, (20, 295))
        dataset = ultrasound(frame)
        dataset.SequenceOfUltrasoundRegions = [region(0, 40, 319, 239)]
        after = deidentify(dataset, KEY).pixel_array
        assert blank(after)[:40].all()
        assert (after[40:] == frame[40:]).mean() > 0.9

    def test_a_page_of_text_is_refused(self):
        page = np.full((480, 640), 255, np.uint8)
        for line in range(4, 470, 14):
            page, _ = write_on(page, "Hartmann Otto was seen on Monday with a long history of pain", (4, line), 13, 90)
        with pytest.raises(Refused) as refusal:
            deidentify(ultrasound(page), KEY)
        assert refusal.value.reason is Reason.TEXT

    def test_anatomy_stays_bit_for_bit_when_everything_is_searched(self):
        source = read_dataset(Path(get_testdata_file("693_J2KI.dcm")))
        clean = deidentify(source, KEY, options=Options(text=TextCheck.ALL))
        np.testing.assert_array_equal(clean.pixel_array, source.pixel_array)
        assert clean.BurnedInAnnotation == "NO"

    @pytest.mark.parametrize(("size", "shade"), [(14, 1.0), (22, 1.0), (22, 0.8)])
    def test_a_name_on_a_cross_section_is_gone_when_everything_is_searched(self, size, shade):
        source = read_dataset(Path(get_testdata_file("693_J2KI.dcm")))
        source.decompress()
        pixels = source.pixel_array.copy()
        _, letters = write_on(np.zeros(pixels.shape, np.uint8), NAME, (150, 20), size, 255)
        pixels[letters] = pixels.min() + shade * np.ptp(pixels)
        source.PixelData, source.PatientName = pixels.tobytes(), NAME
        result = deidentify_with(source, open_profile(ProfileName.MODIFIED_DATES, KEY), Options(text=TextCheck.ALL))
        after = result.dataset.pixel_array
        assert np.mean(after[letters] == pixels.min()) > 0.95
        assert 0 < result.done.text_share < 0.1

    def test_coloured_letters_on_white_are_seen(self):
        frame = np.full((200, 300, 3), 255, np.uint8)
        image = Image.fromarray(frame)
        ImageDraw.Draw(image).text((40, 60), NAME, font=ImageFont.load_default(20), fill=(0, 0, 255))
        dataset = ultrasound(np.asarray(image)[..., 0])
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation, dataset.PlanarConfiguration = 3, "RGB", 0
        dataset.PixelData = np.asarray(image).tobytes()
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        after = deidentify(dataset, KEY).pixel_array
        letters = np.asarray(image)[..., 0] < 128
        assert (after[letters] == 0).mean() > 0.95

    @pytest.mark.parametrize(
        "file", ["examples_palette.dcm", "JPGLosslessP14SV1_1s_1f_8b.dcm", "examples_ybr_color.dcm"]
    )
    def test_names_on_real_frames_of_devices_are_gone(self, file):
        """Six names a frame, in several sizes and shades, wherever they fall: at least 97 % of their letters."""
        rng = np.random.default_rng(7)
        source = decode_frames(read_dataset(Path(get_testdata_file(file))), [0]).frames[0]
        source = (source >> 8 if source.dtype.itemsize > 1 else source).astype(np.uint8)
        source = source.max(axis=-1) if source.ndim == 3 else source
        program = Tesseract.find()
        assert program is not None
        gone = []
        for size, shade in [(11, 255), (11, 170), (16, 255), (16, 10), (28, 200), (28, 255)]:
            size = min(size, source.shape[1] // 16)
            at = (int(rng.integers(4, source.shape[1] - 11 * size)), int(rng.integers(4, source.shape[0] - 2 * size)))
            frame, letters = write_on(source, NAME, at, size, shade)
            decoded = Decoded(frame[None], "MONOCHROME2", 8)
            cleaned, _ = clean_text(decoded, Needles(frozenset({"hartmann", "otto"})), program, expected=True)
            gone.append(float(np.mean(blank(cleaned.frames[0])[letters])))
        assert np.mean(gone) > 0.97, gone
        assert min(gone) > 0.8, gone
