"""Delivered files: what goes in comes out, and a hostile file is refused and nothing worse."""

from __future__ import annotations

import gzip
import io
import struct

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stage_bank.skills import DELIVERIES, SKILLS, Form

sides = st.tuples(st.integers(1, 70), st.integers(1, 70))
images = arrays.arrays(np.float32, sides, elements=st.floats(-4, 4, width=32))
masks = arrays.arrays(bool, sides)
deliveries = st.sampled_from(DELIVERIES)
IMAGE, MASK, LABEL = (SKILLS[track].form for track in ("enhancement", "segmentation", "classification"))


@given(images, deliveries)
def test_an_image_comes_back(image: np.ndarray, delivery: str) -> None:
    delivered = IMAGE.encode(IMAGE.turn(image, delivery))
    np.testing.assert_array_equal(IMAGE.restore(IMAGE.decode(delivered), delivery), image)


@given(images)
def test_numpy_reads_and_writes_the_same_file(image: np.ndarray) -> None:
    np.testing.assert_array_equal(np.load(io.BytesIO(IMAGE.encode(image))), image)
    stream = io.BytesIO()
    np.save(stream, np.asfortranarray(image))
    np.testing.assert_array_equal(IMAGE.decode(stream.getvalue()), image)


@given(masks, deliveries)
def test_a_mask_comes_back(mask: np.ndarray, delivery: str) -> None:
    delivered = MASK.encode(MASK.turn(mask, delivery))
    np.testing.assert_array_equal(MASK.restore(MASK.decode(delivered), delivery), mask)


@given(masks)
def test_nibabel_reads_the_same_mask(mask: np.ndarray) -> None:
    image = nibabel.Nifti1Image.from_bytes(gzip.decompress(MASK.encode(mask)))
    np.testing.assert_array_equal(np.asarray(image.dataobj).reshape(mask.shape), mask)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("label", [0, 1])
def test_a_label_comes_back(label: int, delivery: str) -> None:
    delivered = LABEL.encode(LABEL.turn(label, delivery))
    assert LABEL.restore(LABEL.decode(delivered), delivery) == label


def npy(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


HOSTILE = {
    "open brackets": npy(b"(" * 4000 + b"\n"),
    "minus signs": npy(b"-" * 9000 + b"1\n"),
    "unhashable key": npy(b"{[]: 1, 'descr': '<f4', 'fortran_order': False, 'shape': (9, 6), }\n"),
    "negative sides": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }\n", bytes(24)),
    "truth as a side": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 6), }\n", bytes(24)),
    "no rows": npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 6), }\n"),
    "objects": npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 6), }\n", bytes(24)),
    "not finite": IMAGE.encode(np.full((4, 4), np.nan, np.float32)),
    "deep JSON": b"[" * 4096,
    "long label": b'{"label": ' + b"1" * 4000 + b"}",
    "bomb": gzip.compress(bytes(1 << 24)),
    "cut": MASK.encode(np.ones((8, 8), bool))[:40],
    "many-valued mask": MASK.encode(np.full((4, 4), 3, np.uint8)),
}


@pytest.mark.parametrize("track", list(SKILLS))
@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_file_is_refused(name: str, track: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SKILLS[track].form.decode(HOSTILE[name])


@given(
    st.sampled_from([(IMAGE, np.ones((8, 6), np.float32)), (MASK, np.ones((8, 6), bool)), (LABEL, 1)]),
    st.binary(max_size=600),
    st.integers(0, 400),
    st.binary(min_size=1, max_size=8),
)
def test_any_bytes_decode_or_are_refused(made: tuple[Form, object], noise: bytes, at: int, patch: bytes) -> None:
    form, output = made
    good = form.encode(output)
    for data in (noise, good[:at] + patch + good[at + len(patch) :]):
        try:
            form.decode(data)
        except ValueError:
            continue
