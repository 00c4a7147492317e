"""The evaluation wall: held-out pictures and texts are known again in other forms, and others are let through."""

from __future__ import annotations

import dataclasses
import io
import unicodedata
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from common.errors import SigningError
from common.messages import RELEASE_SCHEMA
from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from stage_bank.images import public_images
from stage_bank.picture import Picture
from stage_bank.state import TrainingState
from stage_bank.tracks import TRACKS
from stage_bank.walls import EvaluationWall, FingerprintSet, fingerprint_suites, read_fingerprints, sign_fingerprints
from stage_bank.walls.shingles import shingles

SEALED = [image.pixels for image in public_images("sealed")]
REPORT = "There is a small nodule of 8 mm in the left upper lobe. No effusion and no enlarged node in the mediastinum."
PRINTS = fingerprint_suites(bytes(range(32)), SEALED, [REPORT], ["track report stage S1"])
WALL = EvaluationWall(PRINTS)

CHANGES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "same": lambda p, _: p,
    "resized": lambda p, rng: ndimage.zoom(p, rng.uniform(0.4, 1.6, 2), order=1),
    "flipped and turned": lambda p, rng: np.rot90(p[:: rng.choice([-1, 1])], rng.integers(4)),
    "another window": lambda p, rng: np.clip((p - rng.uniform(0, 0.1)) / rng.uniform(0.7, 0.9), 0, 1) ** 0.7,
    "inverted": lambda p, _: 1 - p,
    "noisy": lambda p, rng: p + rng.normal(0, 0.08, p.shape),
    "in another unit": lambda p, _: p * 1000 - 500,
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_held_out_picture_is_known_again(change: str) -> None:
    rng = np.random.default_rng(1)
    found = [PRINTS.matches_picture(CHANGES[change](p, rng)) for p in SEALED for _ in range(3)]
    assert np.mean(found) >= 0.95


def test_other_pictures_are_let_through() -> None:
    rng = np.random.default_rng(2)
    crops = []
    for image in public_images("demonstrations"):
        for _ in range(20):
            rows, columns = (int(side * rng.uniform(0.5, 1)) for side in image.pixels.shape)
            top, left = (rng.integers(a - b + 1) for a, b in zip(image.pixels.shape, (rows, columns), strict=True))
            crops.append(image.pixels[top : top + rows, left : left + columns])
    assert np.mean([PRINTS.matches_picture(crop) for crop in crops]) <= 0.01


@given(
    st.sampled_from([str.upper, str.title, str.swapcase]),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    st.sampled_from([" ", "  ", "\n", "\t ", "\u00a0", " \r\n"]),
    st.integers(0, 10**6),
)
def test_a_held_out_text_is_known_again(case: Callable[[str], str], form: str, blank: str, number: int) -> None:
    changed = unicodedata.normalize(form, case(REPORT)).replace(" ", blank).replace("8", str(number))
    assert PRINTS.matches_text(changed)
    assert PRINTS.matches_text(f"History of cough. {changed}")
    wide = "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in changed)
    assert PRINTS.matches_text(wide)


@pytest.mark.parametrize("text", ["", "track report stage S1", "a small nodule", "bat infer", REPORT[::-1]])
def test_other_texts_are_let_through(text: str) -> None:
    assert not PRINTS.matches_text(text)


@given(st.text(max_size=200))
def test_shingles_take_any_text_and_do_not_change_when_taken_again(text: str) -> None:
    found = shingles(text)
    assert all(shingles(shingle) == {shingle} for shingle in found)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("track", list(TRACKS))
def test_a_planted_picture_or_text_keeps_a_state_out_and_honest_states_pass(
    track: Track, make_state: Callable[..., TrainingState]
) -> None:
    state = make_state(track, Focus.S4, Outcome.SUCCESS)
    assert WALL.breaches(state) == []
    picture = {**state.files, "cases/case1/image.npy": npy(np.rot90(SEALED[0]).astype(np.float32))}
    assert [b.what for b in WALL.breaches(dataclasses.replace(state, files=picture))] == ["picture of a held-out suite"]
    hidden = {**state.hidden, "notes.txt": REPORT.upper().encode()}
    assert [b.what for b in WALL.breaches(dataclasses.replace(state, hidden=hidden))] == ["text of a held-out suite"]
    assert WALL.breaches(dataclasses.replace(state, prompt=REPORT)) != []


def test_a_source_picture_is_recognised_before_anything_is_made_of_it() -> None:
    assert WALL.holds_out(Picture(SEALED[0][::-1].copy()))
    assert not WALL.holds_out(Picture(public_images("demonstrations")[0].pixels))


def test_what_cannot_be_searched_stays_out(make_state: Callable[..., TrainingState]) -> None:
    state = make_state(Track.SEGMENTATION, Focus.S1, Outcome.SUCCESS)
    broken = EvaluationWall(dataclasses.replace(PRINTS, pictures=((("zz",),),)))
    (breach,) = broken.breaches(state)
    assert "cannot be compared" in breach.what


def test_the_signed_set_comes_back_and_nothing_else_does() -> None:
    key = SigningKey.generate()
    data = sign_fingerprints(PRINTS, key)
    assert read_fingerprints(data, key.public) == PRINTS
    with pytest.raises(SigningError):
        read_fingerprints(data, SigningKey.generate().public)
    for junk in (b"", b"{}", b"[" * 9999, data[:-2], data.replace(b'"texts"', b'"textz"')):
        with pytest.raises(SigningError):
            read_fingerprints(junk, key.public)


@settings(max_examples=40)
@given(st.data())
def test_any_changed_byte_of_the_set_is_noticed(data: st.DataObject) -> None:
    key = SigningKey.generate()
    small = FingerprintSet(bytes(32), PRINTS.pictures[:1], PRINTS.texts)
    signed = bytearray(sign_fingerprints(small, key))
    signed[data.draw(st.integers(0, len(signed) - 1))] ^= data.draw(st.integers(1, 127))
    with pytest.raises(SigningError):
        read_fingerprints(bytes(signed), key.public)


def test_no_message_that_leaves_has_a_field_for_a_match() -> None:
    fields = " ".join(str(field) for message in RELEASE_SCHEMA.values() for field in message).lower()
    assert fields
    assert not any(word in fields for word in ("match", "fingerprint", "wall", "kept_out", "reject"))
