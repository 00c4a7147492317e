"""The sockets, for real: what a caller of the relay socket can do, and what it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from client.proto import relay_pb2 as pb
from client.proto.service import CHUNK_BYTES, AdminStub, RelayStub, add_admin, add_relay, chunks
from client.services import CALL_LIMIT, CONNECTION_LIMIT, AdminService, RelayService, socket_server
from common.errors import ConfigurationError
from common.messages import Refusal, RefusalCode, Release, SiteDescription, sign_message, verify_message
from common.stages import Track


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bat-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def relay(site, folder: Path) -> Iterator[RelayStub]:
    description = SiteDescription(
        site="north", public_key=site.key.public.hex, base_model=site.model.digest, tracks=tuple(Track), software="test"
    )
    service = RelayService(lambda: description, site.desk, site.airlock, 10_000, receive_timeout_s=1.0)
    server = socket_server(folder / "relay.sock", 0o600, lambda server: add_relay(server, service))
    with grpc.insecure_channel(f"unix:{folder / 'relay.sock'}") as channel:
        yield RelayStub(channel)
    site.desk.stop(5.0)
    server.stop(None).wait()


def request(signed: bytes, adapter: bytes) -> Iterator[pb.TrainChunk]:
    yield pb.TrainChunk(prescription=signed)
    yield from (pb.TrainChunk(adapter=adapter[start : start + 100]) for start in range(0, len(adapter), 100))


def gather(events) -> dict[str, bytes]:
    parts: dict[str, bytes] = {"release": b"", "update": b"", "refusal": b""}
    for event in events:
        part = event.WhichOneof("part")
        if part != "state":
            parts[part] += getattr(event, part)
    return parts


def test_a_round_over_the_socket_and_its_release_again(site, relay: RelayStub) -> None:
    signed = sign_message(site.prescription(), site.server)
    parts = gather(relay.train(request(signed, site.model.initial_adapter)))
    assert verify_message(parts["release"], Release, site.key.public).update_bytes == len(parts["update"])
    assert gather(relay.release(pb.RoundKey(run="demo", round=1))) == parts
    assert gather(relay.train(request(signed, site.model.initial_adapter))) == parts


def test_only_a_state_name_is_seen_while_a_round_is_under_way(site, relay: RelayStub) -> None:
    site.learner.held = threading.Event()
    signed = sign_message(site.prescription(), site.server)
    events = iter(relay.train(request(signed, site.model.initial_adapter)))
    first = next(events)
    assert first.state in ("accepted", "training")
    assert set(first.DESCRIPTOR.fields_by_name) == {"state", "release", "update", "refusal"}
    assert relay.cancel(pb.RoundKey(run="demo", round=1)).cancelled
    refusal = verify_message(gather(events)["refusal"], Refusal, site.key.public)
    assert refusal.code is RefusalCode.CANCELLED


def test_a_dropped_caller_does_not_stop_the_round(site, relay: RelayStub) -> None:
    site.learner.held = threading.Event()
    signed = sign_message(site.prescription(), site.server)
    call = relay.train(request(signed, site.model.initial_adapter))
    next(iter(call))
    call.cancel()
    site.learner.held.set()
    assert site.desk.job.wait(5.0) is not None
    assert gather(relay.release(pb.RoundKey(run="demo", round=1)))["release"]


def test_a_flood_is_cut_off(site, relay: RelayStub) -> None:
    flood = (pb.TrainChunk(adapter=bytes(CHUNK_BYTES)) for _ in range(64))
    with pytest.raises(grpc.RpcError) as raised:
        gather(relay.train(flood))
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert site.desk.job is None


def test_the_relay_socket_offers_nothing_of_the_admin_service(relay: RelayStub, folder: Path) -> None:
    with grpc.insecure_channel(f"unix:{folder / 'relay.sock'}") as channel, pytest.raises(grpc.RpcError) as raised:
        AdminStub(channel).shutdown(pb.ShutdownRequest())
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_the_description_is_signed_and_constant(site, relay: RelayStub) -> None:
    one, two = (relay.describe(pb.DescribeRequest()).description for _ in range(2))
    assert one == two
    assert verify_message(one, SiteDescription, site.key.public).site == "north"


def test_a_round_that_was_never_answered_has_no_release(relay: RelayStub) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        gather(relay.release(pb.RoundKey(run="../../etc", round=1)))
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


def test_rights_of_the_sockets_and_a_stale_one(folder: Path) -> None:
    path = folder / "admin.sock"
    path.write_text("left by a crash")
    stopped = threading.Event()
    service = AdminService(lambda: {"state": "idle"}, stopped.set)
    server = socket_server(path, 0o660, lambda server: add_admin(server, service))
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with grpc.insecure_channel(f"unix:{path}") as channel:
        assert json.loads(AdminStub(channel).status(pb.StatusRequest()).json) == {"state": "idle"}
        AdminStub(channel).shutdown(pb.ShutdownRequest())
    assert stopped.is_set()
    server.stop(None).wait()


def test_a_socket_in_a_missing_folder_is_one_clear_error(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot make the socket"):
        socket_server(folder / "none" / "relay.sock", 0o600, lambda server: None)


def test_chunks_put_together_are_the_whole() -> None:
    data = bytes(range(256)) * 9_000
    pieces = list(chunks(data))
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) == CHUNK_BYTES
    assert list(chunks(b"")) == []


def test_nothing_of_an_error_inside_is_told_to_the_relay(site, relay: RelayStub) -> None:
    site.ledger.close()
    for call in (
        lambda: relay.train(request(b"not signed", b"")),
        lambda: [relay.describe(pb.DescribeRequest())],
    ):
        with pytest.raises(grpc.RpcError) as raised:
            list(call())
        assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.INTERNAL, "failed")


def test_a_flood_of_bad_calls_does_not_fill_the_ledger(site, relay: RelayStub) -> None:
    foreign = sign_message(site.prescription(site="south"), site.server)
    gather(relay.train(request(foreign, b"")))
    gather(relay.train(request(b"not signed", b"")))
    size = site.ledger.path.stat().st_size
    for number in range(20):
        assert gather(relay.train(request(b"noise %d" % number, b"")))["refusal"]
        assert gather(relay.train(request(foreign, b"")))["refusal"]
    assert site.ledger.path.stat().st_size == size


def test_callers_that_never_finish_do_not_keep_the_others_out(relay: RelayStub, folder: Path) -> None:
    done = threading.Event()

    def endless() -> Iterator[pb.TrainChunk]:
        done.wait(30)
        yield pb.TrainChunk()

    with grpc.insecure_channel(f"unix:{folder / 'relay.sock'}") as channel:
        calls = [RelayStub(channel).train(endless()) for _ in range(16)]
        try:
            assert relay.describe(pb.DescribeRequest(), timeout=15).description
        finally:
            done.set()
            for call in calls:
                call.cancel()


def test_a_flood_of_connections_takes_few_of_the_daemons_descriptors(folder: Path, relay: RelayStub) -> None:
    relay.describe(pb.DescribeRequest())
    before, callers = len(os.listdir("/proc/self/fd")), 200
    with contextlib.ExitStack() as stack:
        for _ in range(callers):
            flood = stack.enter_context(socket.socket(socket.AF_UNIX))
            flood.connect(str(folder / "relay.sock"))
        time.sleep(1.0)
        kept = len(os.listdir("/proc/self/fd")) - before - callers
        assert kept <= 2 * CONNECTION_LIMIT
        relay.describe(pb.DescribeRequest(), timeout=5.0)  # who was connected before goes on


def test_a_flood_of_calls_is_turned_away_beyond_the_limit(site, folder: Path, relay: RelayStub) -> None:
    site.learner.held = threading.Event()
    signed = sign_message(site.prescription(), site.server)
    calls = [relay.train(request(signed, site.model.initial_adapter)) for _ in range(2 * CALL_LIMIT)]
    time.sleep(2.0)
    turned_away = [call for call in calls if call.done()]
    assert len(turned_away) >= CALL_LIMIT
    assert {call.code() for call in turned_away} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    for call in calls:
        call.cancel()
