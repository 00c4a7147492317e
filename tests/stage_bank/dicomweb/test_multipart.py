"""Multipart answers cut into pieces of any size."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage_bank.ingest.dicomweb.multipart import Cut, TooLong, copy_part

BOUNDARY = b"x-1"
tricky = st.lists(st.sampled_from([b"\r\n", b"--x-1", b"\r\n--x-", b"-", b"\r", b"\n", b"abc", b"\0"]), max_size=30)
bodies = st.one_of(tricky.map(b"".join), st.binary(max_size=300)).filter(lambda data: b"\r\n--x-1" not in data)


def message(body: bytes, preamble: bytes = b"", end: bytes = b"--\r\n") -> bytes:
    return preamble + b"--x-1\r\nContent-Type: application/dicom\r\n\r\n" + body + b"\r\n--x-1" + end


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@settings(max_examples=300, deadline=None)
@given(bodies, st.integers(1, 400), st.sampled_from([b"", b"\r\n", b"to whom it may concern\r\n"]))
def test_the_part_comes_out_as_it_was(body: bytes, size: int, preamble: bytes) -> None:
    target = BytesIO()
    assert copy_part(pieces(message(body, preamble), size), BOUNDARY, target, 1000) == len(body)
    assert target.getvalue() == body


@settings(max_examples=200, deadline=None)
@given(bodies, st.integers(1, 40), st.data())
def test_an_answer_that_ends_early_is_never_taken_for_whole(body: bytes, size: int, data: st.DataObject) -> None:
    whole = message(body, end=b"--")
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Cut):
        copy_part(pieces(whole[:cut], size), BOUNDARY, BytesIO(), 1000)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.integers(1, 50), st.integers(0, 300))
def test_no_more_than_the_limit_is_written(length: int, size: int, limit: int) -> None:
    target = BytesIO()
    chunks = pieces(message(b"a" * length), size)
    if length <= limit:
        copy_part(chunks, BOUNDARY, target, limit)
    else:
        with pytest.raises(TooLong):
            copy_part(chunks, BOUNDARY, target, limit)
    assert len(target.getvalue()) <= limit


def test_two_parts_or_endless_headers_are_refused() -> None:
    two = message(b"one", end=b"\r\nContent-Type: a\r\n\r\ntwo\r\n--x-1--")
    with pytest.raises(Cut):
        copy_part([two], BOUNDARY, BytesIO(), 1000)
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 4096
            yield b"a" * 4096

    with pytest.raises(Cut):
        copy_part(endless(), BOUNDARY, BytesIO(), 1 << 40)
    assert read < 1 << 20
