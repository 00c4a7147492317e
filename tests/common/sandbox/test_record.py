"""Whatever is done to a sealed record, it does not verify any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.canonical import Json
from common.errors import SandboxError, SigningError
from common.sandbox import Execution, Language, Receipt, Record, Recorder, Sandbox
from common.sandbox.record import Closing, Opening
from common.signing import SigningKey

KEY, OTHER = SigningKey.generate(), SigningKey.generate()
text = st.text(max_size=6)
digests = st.dictionaries(text, st.text("0123456789abcdef", min_size=64, max_size=64), max_size=2)
seconds = st.floats(0, 1e6, allow_nan=False)
executions = st.builds(
    Execution,
    language=st.sampled_from(Language),
    code=text,
    exit_status=st.integers(-64, 255),
    timed_out=st.booleans(),
    wall_s=seconds,
    cpu_s=seconds,
    peak_memory_bytes=st.integers(0, 1 << 40),
    output=text,
    output_truncated=st.booleans(),
    created=digests,
    modified=digests,
    deleted=digests,
)


def recorded(done: list[Execution], files: dict[str, str], key: SigningKey = KEY) -> Record:
    recorder = Recorder(key, "bwrap", {})
    for execution in done:
        recorder.add(execution)
    return recorder.seal(files)


records = st.builds(recorded, st.lists(executions, min_size=2, max_size=4), digests)
quick = settings(max_examples=40, deadline=None)


def refused(record: Record) -> None:
    with pytest.raises(SigningError):
        record.verify(KEY.public)


@quick
@given(record=records)
def test_an_honest_record_verifies_and_survives_json(record: Record) -> None:
    record.verify(KEY.public, rollout=record.opening.rollout)
    read = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert read == record
    read.verify(KEY.public)
    with pytest.raises(SigningError):
        record.verify(OTHER.public)
    with pytest.raises(SigningError, match="another rollout"):
        record.verify(KEY.public, rollout=recorded([], {}).opening.rollout)


Forge = Callable[[tuple[Receipt, ...], int, int], tuple[Receipt, ...]]
FORGERIES: dict[str, Forge] = {
    "dropped": lambda r, i, j: (*r[:i], *r[i + 1 :]),
    "dropped and renumbered": lambda r, i, j: tuple(
        replace(receipt, sequence=number) for number, receipt in enumerate((*r[:i], *r[i + 1 :]))
    ),
    "swapped": lambda r, i, j: tuple(r[{i: j, j: i}.get(number, number)] for number in range(len(r))),
    "repeated": lambda r, i, j: (*r[: i + 1], *r[i:]),
    "cut at the end": lambda r, i, j: r[:i],
    "cut at the beginning": lambda r, i, j: r[i + 1 :],
    "reversed": lambda r, i, j: r[::-1],
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
@quick
@given(record=records, data=st.data())
def test_receipts_can_be_neither_dropped_nor_moved(forge: Forge, record: Record, data: st.DataObject) -> None:
    places = st.integers(0, len(record.receipts) - 1)
    first = data.draw(places)
    second = data.draw(places.filter(lambda place: place != first))
    refused(replace(record, receipts=forge(record.receipts, first, second)))


@quick
@given(record=records, other=records, data=st.data())
def test_nothing_of_another_rollout_fits(record: Record, other: Record, data: st.DataObject) -> None:
    """Even of the same sandbox, and even where the other rollout did the very same."""
    other = data.draw(st.sampled_from([other, recorded(list(record.receipts), {})]))
    place = data.draw(st.integers(0, min(len(record.receipts), len(other.receipts)) - 1))
    ours, theirs = record.receipts, other.receipts
    refused(replace(record, receipts=(*ours[:place], theirs[place], *ours[place + 1 :])))
    refused(replace(record, receipts=(*ours[:place], *theirs[place:])))
    refused(replace(record, receipts=theirs))
    refused(replace(record, opening=other.opening))
    refused(replace(record, closing=other.closing))
    refused(replace(record, receipts=(*ours, *theirs)))


EDITS: dict[str, Callable[[Any], Any]] = {
    "str": lambda value: value + "0",
    "int": lambda value: value + 1,
    "bool": lambda value: not value,
    "float": lambda value: value * 2 + 1.0,
    "Mapping[str, str]": lambda value: {**value, "added": "0" * 64},
    "Language": lambda value: next(language for language in Language if language is not value),
}


@pytest.mark.parametrize("field", [field.name for field in fields(Receipt)])
@settings(max_examples=10, deadline=None)
@given(record=records, data=st.data())
def test_no_field_of_a_receipt_can_be_edited(field: str, record: Record, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(record.receipts) - 1))
    kind = next(str(each.type) for each in fields(Receipt) if each.name == field)
    receipt = record.receipts[place]
    edited = replace(receipt, **{field: EDITS[kind](getattr(receipt, field))})
    refused(replace(record, receipts=(*record.receipts[:place], edited, *record.receipts[place + 1 :])))


@pytest.mark.parametrize(
    ("part", "field"),
    [(name, field.name) for name, kind in (("opening", Opening), ("closing", Closing)) for field in fields(kind)],
)
@settings(max_examples=10, deadline=None)
@given(record=records)
def test_no_field_of_the_ends_can_be_edited(part: str, field: str, record: Record) -> None:
    link = getattr(record, part)
    value = getattr(link, field)
    refused(replace(record, **{part: replace(link, **{field: EDITS[type(value).__name__](value)})}))


@quick
@given(record=records)
def test_a_shorter_record_cannot_be_closed_without_the_key(record: Record) -> None:
    """The closing is refused again when it is signed by another key, or made of a receipt's signature."""
    cut = record.receipts[:-1]
    head = cut[-1].digest if cut else record.opening.digest
    closing = replace(record.closing, count=len(cut), head=head)
    for signature in (OTHER.sign_json(closing.signed_part()), record.receipts[-1].signature, ""):
        refused(replace(record, receipts=cut, closing=replace(closing, signature=signature)))


JSON_EDITS: dict[str, Callable[[dict[str, Any]], Json]] = {
    "a field more": lambda value: {**value, "note": 1},
    "no closing": lambda value: {name: part for name, part in value.items() if name != "closing"},
    "a receipt's field more": lambda value: {**value, "receipts": [{**value["receipts"][0], "link": "receipt"}]},
    "text for a number": lambda value: {**value, "closing": {**value["closing"], "count": "1"}},
    "a bare list": lambda value: [value],
    "nothing": lambda value: None,
    "another language": lambda value: {**value, "receipts": [{**value["receipts"][0], "language": "perl"}]},
    "an endless time": lambda value: {**value, "receipts": [{**value["receipts"][0], "wall_s": float("inf")}]},
}


@pytest.mark.parametrize("edit", JSON_EDITS.values(), ids=JSON_EDITS)
def test_what_is_no_record_is_a_typed_error(edit: Callable[[dict[str, Any]], Json]) -> None:
    done = Execution(Language.BASH, "", 0, False, 0.0, 0.0, 0, "", False, {}, {}, {})
    with pytest.raises(SigningError, match="not a sandbox's record"):
        Record.from_json(edit(json.loads(json.dumps(recorded([done], {}).to_json()))))


def test_a_session_seals_once_and_runs_nothing_after(sandbox: Sandbox) -> None:
    session, other = sandbox.open({"a": b"1"}), sandbox.open({"a": b"1"})
    session.execute(Language.BASH, "echo 2 > a; echo 3 > b")
    record = session.seal()
    with pytest.raises(SandboxError, match="sealed"):
        session.execute(Language.BASH, "true")
    assert session.seal() is record
    record.verify(sandbox.public_key, rollout=session.rollout)
    assert record.receipts == session.receipts
    assert record.opening.backend == sandbox.name
    assert record.opening.files == other.seal().closing.files != record.closing.files
    assert session.rollout != other.rollout
    session.close()
    other.close()
    with pytest.raises(SandboxError, match="closed"):
        session.seal()
