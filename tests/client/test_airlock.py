"""The one door: only the schema, only the adapter's tensors, nothing before the ledger knows."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from common.adapter import RawTensor, encode_adapter
from common.canonical import digest_bytes
from common.errors import AdapterError, FederationError
from common.messages import (
    RELEASE_SCHEMA,
    Prescription,
    Refusal,
    RefusalCode,
    Release,
    SiteDescription,
    message_digest,
    verify_message,
)
from common.stages import Track


def release(site, data: bytes, **changes: object) -> Release:
    prescription = site.prescription()
    fields = {
        "run": "demo",
        "round": 1,
        "site": "north",
        "prescription": message_digest(prescription),
        "base_model": site.model.digest,
        "starting_adapter": prescription.starting_adapter,
        "adapter_spec": site.model.spec.digest,
        "update": digest_bytes(data),
        "update_bytes": len(data),
        "epsilon": None,
        **changes,
    }
    return Release.model_validate(fields)


def zeros(site, **changes: RawTensor) -> dict[str, RawTensor]:
    update = {
        name: RawTensor.from_array(np.zeros(shape, np.float32)) for name, (_, shape) in site.model.spec.tensors.items()
    }
    return {**update, **changes}


def test_every_leaving_message_is_listed_field_by_field() -> None:
    assert all(set(fields) == set(message.model_fields) for message, fields in RELEASE_SCHEMA.items())


def test_a_good_release_leaves_once_and_is_kept(site) -> None:
    update = encode_adapter(zeros(site))
    outgoing = site.airlock.release(release(site, update), update, site.model.spec)
    assert verify_message(outgoing.message, Release, site.key.public) == release(site, update)
    assert site.airlock.again("demo", 1) == outgoing
    assert site.airlock.again("demo", 2) is None
    with pytest.raises(FederationError, match="already answered"):
        site.airlock.release(release(site, update), update, site.model.spec)
    body = site.events("release")[0].body
    assert (body["bytes"], body["tensors"], body["update"]) == (len(update), 4, digest_bytes(update))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_stay_in(site, value: float) -> None:
    name = next(iter(site.model.spec.tensors))
    bad = zeros(site)
    bad[name] = RawTensor.from_array(np.full(bad[name].shape, value, np.float32))
    update = encode_adapter(bad)
    with pytest.raises(AdapterError, match="NaN or infinity"):
        site.airlock.release(release(site, update), update, site.model.spec)
    assert not site.events("release")
    assert not site.airlock.again("demo", 1)


def test_one_more_tensor_stays_in(site) -> None:
    update = encode_adapter(zeros(site, pixels=RawTensor.from_array(np.ones((8, 8), np.float32))))
    with pytest.raises(AdapterError, match="1 extra"):
        site.airlock.release(release(site, update), update, site.model.spec)


def test_words_in_the_header_of_an_update_stay_in(site) -> None:
    clean = encode_adapter(zeros(site))
    length = struct.unpack("<Q", clean[:8])[0]
    header = clean[8 : 8 + length].rstrip()[:-1] + b',"__metadata__":{"note":"Quillfeather"}}'
    header += b" " * (-len(header) % 8)
    update = struct.pack("<Q", len(header)) + header + clean[8 + length :]
    with pytest.raises(AdapterError, match="beside its tensors"):
        site.airlock.release(release(site, update), update, site.model.spec)


def test_an_update_over_the_sites_limit_stays_in(site) -> None:
    site.policy = site.policy.model_copy(update={"max_update_bytes": 100})
    site.open()
    update = encode_adapter(zeros(site))
    with pytest.raises(AdapterError, match="over the limit"):
        site.airlock.release(release(site, update), update, site.model.spec)


def test_a_release_must_describe_its_own_update(site) -> None:
    update = encode_adapter(zeros(site))
    with pytest.raises(AdapterError, match="other bytes"):
        site.airlock.release(release(site, update, update="8" * 64), update, site.model.spec)
    with pytest.raises(AdapterError, match="specification"):
        site.airlock.release(release(site, update, adapter_spec="8" * 64), update, site.model.spec)
    with pytest.raises(AdapterError, match="specification"):
        site.airlock.release(release(site, update), update)


def test_another_message_type_or_tensors_beside_a_refusal_stay_in(site) -> None:
    with pytest.raises(FederationError, match="may not leave"):
        site.airlock.release(site.prescription())
    assert Prescription not in RELEASE_SCHEMA
    with pytest.raises(FederationError, match="only a release"):
        site.airlock.release(Refusal(run="demo", round=1, site="north", code=RefusalCode.BUSY), b"pixels")


def test_a_changed_kept_release_is_not_sent(site) -> None:
    update = encode_adapter(zeros(site))
    site.airlock.release(release(site, update), update, site.model.spec)
    (site.root / "releases" / "demo" / "1" / "update.safetensors").write_bytes(update + b" ")
    with pytest.raises(FederationError, match="not the one that left"):
        site.airlock.again("demo", 1)


def test_the_same_description_is_recorded_once(site) -> None:
    description = SiteDescription(
        site="north", public_key=site.key.public.hex, base_model=site.model.digest, tracks=tuple(Track), software="test"
    )
    first = site.airlock.release(description)
    assert site.airlock.release(description) == first
    assert len(site.events("sitedescription")) == 1
