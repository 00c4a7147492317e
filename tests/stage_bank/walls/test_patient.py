import base64
import dataclasses
import gzip
import io
import json
import re
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from common.signing import SigningKey
from common.stages import Focus, Outcome, Track
from stage_bank.fabrication import Fabricator, random_condition
from stage_bank.picture import Picture
from stage_bank.prompts import user_prompt
from stage_bank.state import TrainingState
from stage_bank.toolkit import open_toolkit_sandbox
from stage_bank.tracks import TRACKS
from stage_bank.walls.layers import layers
from stage_bank.walls.needles import NeedleIndex
from stage_bank.walls.patient import PatientWall, _parts
from stage_bank.walls.public_words import mask_public

IDENTIFIERS = {
    "Doe^Peter",
    "Jane",
    "MRN-4711",
    "20040119",
    "1.2.276.0.723",
    "knee of Peterson",
    "Müller",
    "Liver",
    "Head",
}
WALL = PatientWall(IDENTIFIERS)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def state(**changes) -> TrainingState:
    rng = np.random.default_rng(0)
    clean = TrainingState(
        focus=Focus.S2,
        track=Track.ENHANCEMENT,
        outcome=Outcome.SUCCESS,
        patient="ab" * 16,
        prompt=user_prompt(Track.ENHANCEMENT, Focus.S2),
        files={
            "cases/case1/image.npy": npy(rng.random((64, 48), dtype=np.float32)),
            "cases/case1/header.json": json.dumps({"Rows": 64, "RescaleSlope": 0.20040119}).encode(),
            "plan/plan.md": b"# Plan for enhancement\n\nPipeline: deliver, candidates compared, header\n",
        },
        hidden={"reference/case1.npy": npy(rng.random((64, 48)))},
        condition={"kind": "impulse", "polarity": "inverted"},
    )
    return dataclasses.replace(clean, **changes)


def with_file(content: bytes, name: str = "notes") -> TrainingState:
    return state(files={**state().files, name: content})


def zipped(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def png(text: str) -> bytes:
    stream, info = io.BytesIO(), PngInfo()
    info.add_text("Comment", text, zip=True)
    info.add_itxt("Note", text, zip=True)
    Image.new("L", (4, 4)).save(stream, "png", pnginfo=info)
    return stream.getvalue()


def test_an_honest_state_passes():
    assert WALL.breaches(state()) == []


@pytest.mark.parametrize("identifier", sorted(IDENTIFIERS))
@pytest.mark.parametrize(
    "hide",
    [
        lambda s: s.encode(),
        lambda s: s.upper().encode() if s.isascii() else s.encode(),
        lambda s: b"\x00\xff" + s.encode("latin-1") + b"\x01",
        lambda s: ("x" + s).encode("utf-16"),
        lambda s: s.encode("utf-16-be"),
        lambda s: s.encode("utf-16-le"),
        lambda s: json.dumps({"note": s}, ensure_ascii=False).encode(),
        lambda s: base64.b64encode(f"see {s} now".encode()),
        lambda s: b"Q" + base64.b64encode(f"see {s} now".encode()),
        lambda s: gzip.compress(s.encode()),
        lambda s: zlib.compress(s.encode()),
        lambda s: zipped("a.txt", s.encode()),
        lambda s: zipped(f"{s}.txt", b"nothing"),
        lambda s: gzip.compress(zipped("a.txt", base64.b64encode(f"see {s} now".encode()))),
        lambda s: gzip.compress(b"nothing") + gzip.compress(s.encode()),
        lambda s: npy(np.zeros(4)) + s.encode(),
        lambda s: png(s),
        lambda s: png("nothing") + s.encode(),
    ],
)
def test_a_planted_identifier_is_found_in_every_disguise(identifier, hide):
    assert WALL.breaches(with_file(hide(identifier)))
    hidden = {**state().hidden, "more": hide(identifier)}
    assert WALL.breaches(state(hidden=hidden))


@pytest.mark.parametrize(
    "text",
    [
        "Peter Doe",
        "DOE, PETER",
        "doe_peter",
        "2004-01-19",
        "19.01.2004",
        "01/19/2004",
        "Muller",
        "MÜLLER",
        "Mu\u0308ller",
    ],
)
def test_another_rendering_of_an_identifier_is_found(text):
    assert WALL.breaches(with_file(f"see {text} now".encode()))


FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
"""ASCII to the full-width forms of Unicode."""


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("Doe^Peter", "Doe"),
        ("Doe^Peter", "seen: PETER."),
        ("Lee^An^^Dr", "lee"),
        ("Müller^Jörg", "MULLER"),
        ("Doe^Peter", "Peter Doe".translate(FULL_WIDTH)),
        ("Doe^Peter", "Do\u200be"),
        ("MRN-4711", "MRN-4711".translate(FULL_WIDTH)),
        ("12-34-567", "1234567"),
        ("12 34 567", "no 1234567."),
        ("A.12/345", "a12345"),
    ],
)
def test_parts_of_names_and_other_writings_are_found(identifier, text):
    wall = PatientWall({identifier})
    assert wall.breaches(with_file(text.encode()))
    assert wall.breaches(with_file(base64.b64encode(f"see {text} now".encode())))
    assert PatientWall({"Roe^Paul", "98-76-543"}).breaches(with_file(text.encode())) == []


def test_a_name_inside_a_longer_word_is_no_name():
    wall = PatientWall({"Mark^Lin", "Case^Ada"})
    assert wall.breaches(with_file(b"cases marker lines adapted")) == []
    assert wall.breaches(with_file(b"cases mark lines"))


@given(
    identifier=st.sampled_from(sorted(IDENTIFIERS)),
    before=st.sampled_from(["", " ", "\n", "_", '"', "(", "="]),
    after=st.binary(max_size=40),
)
def test_a_planted_identifier_is_found_in_any_surroundings(identifier, before, after):
    """Property: whatever stands around it (no letter or digit that would make it another word or number)."""
    around = re.sub(rb"^[\w.]+", b"", after)
    breaches = WALL.breaches(with_file(before.encode() + identifier.encode() + b" " + around))
    assert breaches


@pytest.mark.parametrize(
    "hide",
    [
        lambda s: s.encode().hex().encode(),
        lambda s: b"a" + s.encode().hex().upper().encode(),
        lambda s: "".join(f"%{byte:02X}" for byte in s.encode()).encode(),
        lambda s: json.dumps(s).encode(),
    ],
)
@pytest.mark.parametrize("identifier", ["Doe^Peter", "MRN-4711", "Müller"])
def test_an_escaped_identifier_is_found(identifier, hide):
    assert WALL.breaches(with_file(hide(identifier)))


@pytest.mark.parametrize("identifier", ["Doe^Peter", "20040119", "1.2.276.0.723"])
def test_a_long_identifier_is_found_inside_an_array(identifier):
    array = np.frombuffer(identifier.encode().center(64, b"\0"), dtype=np.float32)
    assert WALL.breaches(with_file(npy(array), "a.npy"))


def test_names_of_files_conditions_prompt_and_patient_are_searched():
    assert WALL.breaches(with_file(b"", "cases/Jane/image.npy"))
    assert WALL.breaches(state(condition={"kind": "knee of Peterson"}))
    assert WALL.breaches(state(prompt=state().prompt + " for Jane"))
    assert WALL.breaches(state(patient="MRN-4711"))


@pytest.mark.parametrize(
    "prompt", ["", "track enhancement stage S3", "track enhancement stage S2 kind impulse", "hello"]
)
def test_a_prompt_of_other_words_is_refused(prompt):
    assert [breach.where for breach in WALL.breaches(state(prompt=prompt))] == ["prompt"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b", "c:\\x"])
def test_a_file_that_leaves_the_workspace_is_refused(name):
    assert WALL.breaches(with_file(b"", name))


@pytest.mark.parametrize(
    "text", ["/home/bob/scan", '{"path": "/data/in/x.dcm"}', "C:\\scans\\x", "file:///srv/pacs/1", "\\\\pacs\\x"]
)
def test_absolute_paths_are_refused(text):
    assert [breach.what for breach in WALL.breaches(with_file(text.encode()))] == ["absolute path"]


@pytest.mark.parametrize("text", ["cases/case1/image.npy", "a / b", "1/2", "see process/setup.json", "-/-"])
def test_relative_paths_are_fine(text):
    assert WALL.breaches(with_file(text.encode())) == []


@pytest.mark.parametrize("text", ["120040119", "200401190", "0.20040119", "3.20040119e5"])
def test_digits_inside_a_longer_number_are_no_date(text):
    assert WALL.breaches(with_file(text.encode())) == []


def test_public_words_hide_no_identifier_that_stands_by_itself():
    assert WALL.breaches(with_file(b"deliver header candidates")) == []
    assert WALL.breaches(with_file(b"deliver liver"))
    assert WALL.breaches(with_file(b"my_head"))


def test_a_digest_is_masked_unless_it_is_an_identifier():
    digest = b"4711" * 16
    assert not mask_public(digest, set()).strip()
    assert mask_public(digest, {digest.decode()}) == digest


@pytest.mark.parametrize(
    "content",
    [zipped("a", b"x" * 50)[:-30], gzip.compress(b"x" * 3 + b"Jane")[:-9], b"PK\x03\x04" + b"\0" * 30],
    ids=["archive without its end", "stream without its end", "empty archive header"],
)
def test_what_cannot_be_searched_is_refused(content):
    assert WALL.breaches(with_file(content))


def test_an_array_that_is_cut_short_is_searched_not_refused():
    """Broken outputs lie in the states whose earlier attempt failed."""
    assert WALL.breaches(with_file(npy(np.ones((64, 48)))[:500], "a.npy")) == []
    assert WALL.breaches(with_file(b"\x93NUMPY\x01\x00 nonsense", "a.npy")) == []


def test_a_bad_state_stops_no_other_and_no_finding_repeats_the_identifier():
    nested = b"x"
    for _ in range(9):
        nested = gzip.compress(nested)
    broken = dataclasses.replace(state(), files={"a": None})  # type: ignore[dict-item]
    found = [WALL.breaches(one) for one in (with_file(b"Jane"), state(), broken, with_file(nested))]
    assert [bool(breaches) for breaches in found] == [True, False, True, True]
    assert "Jane" not in repr(found)


@given(st.text(min_size=4, max_size=12), st.binary(max_size=60), st.binary(max_size=60))
def test_the_index_agrees_with_a_plain_search(needle, before, after):
    """Differential: in any surroundings, found exactly when a plain search finds it (numbers aside)."""
    data = before + needle.encode() + after
    stripped = needle.strip()
    if len(stripped) >= 4 and not stripped.isdigit():
        assert NeedleIndex([needle]).occurs_in(data, binary=False)
    elsewhere = before + after
    plain = any(
        stripped.encode(code, "ignore").lower() in elsewhere.lower()
        for code in ("utf-8", "latin-1", "utf-16-le", "utf-16-be")
    )
    if not plain:
        assert not NeedleIndex([needle]).occurs_in(elsewhere, binary=False)


@pytest.fixture(scope="module")
def sandbox():
    opened = open_toolkit_sandbox(SigningKey.generate())
    yield opened
    opened.close()


@pytest.mark.parametrize("track", list(TRACKS))
def test_fabricated_states_hold_public_words_only(track, sandbox):
    """Every word of a real state is known to the wall: a new track or command must add its words there."""
    rng = np.random.default_rng(5)
    ramp = np.add.outer(np.linspace(0, 1, 96), np.linspace(0, 1, 96)).astype(np.float32) / 2
    image = np.clip(ramp + 0.1 * rng.random((96, 96), dtype=np.float32), 0, 1)
    maker = Fabricator(track, random_condition(track, rng), [Picture(image)], "ab" * 16, rng, sandbox)
    for focus, outcome in [(Focus.E2E, Outcome.FAILURE), (Focus.S2, Outcome.RECOVERY), (Focus.S5, Outcome.SUCCESS)]:
        made = maker.draft(focus, outcome, rng)
        assert WALL.breaches(made) == []
        for layer in (layer for _, content in _parts(made) for layer in layers(content)):
            # a last word may be cut: broken outputs lie in failed states
            if not layer.binary and "base64" not in layer.note:
                text = mask_public(layer.data, set()).decode("latin-1")
                assert not (unknown := set(re.findall(r"[A-Za-z]{4,}\b(?=.)", text, re.DOTALL))), unknown
