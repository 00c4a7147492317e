"""The daemon's two gRPC services and the servers behind their Unix sockets."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from client.airlock import Airlock, Outgoing
from client.proto import relay_pb2 as pb
from client.proto.service import chunks
from client.rounds import RoundDesk, RoundJob
from common.canonical import Json
from common.errors import ConfigurationError, FederationError
from common.messages import SiteDescription

__all__ = ["AdminService", "RelayService", "socket_server"]

HEARTBEAT_S = 5.0
"""Seconds between two states while a round is under way."""

RECEIVE_TIMEOUT_S = 120.0
"""Seconds in which a prescription and its adapter must have come in over the local socket."""

PRESCRIPTION_LIMIT = 65_536
"""Largest signed prescription that is read, in bytes."""

CONNECTION_LIMIT = 16
"""Connections a socket keeps open at once. The untrusted side gets no more of the daemon's file descriptors than this,
so that a flood on one socket leaves the other, the ledger and the bank their own."""

CALL_LIMIT = 64
"""Calls a socket takes at once, those that wait for a worker included."""

HEADER_ALLOWANCE = 1 << 20
"""Bytes a safetensors header may add to an adapter's tensors."""


class RelayService:
    """What the untrusted Flower side may ask.

    Args:
        describe: makes the site's description.
        desk: decides on rounds.
        airlock: sends kept releases again.
        max_adapter_bytes: size limit of a starting adapter.
        receive_timeout_s: seconds in which a prescription and its adapter must have come in.
    """

    def __init__(
        self,
        describe: Callable[[], SiteDescription],
        desk: RoundDesk,
        airlock: Airlock,
        max_adapter_bytes: int,
        receive_timeout_s: float = RECEIVE_TIMEOUT_S,
    ) -> None:
        self._receive_timeout_s = receive_timeout_s
        self._describe = describe
        self._desk = desk
        self._airlock = airlock
        self._max_adapter_bytes = max_adapter_bytes + HEADER_ALLOWANCE

    def describe(self, request: pb.DescribeRequest, context: grpc.ServicerContext) -> pb.DescribeReply:
        """A signed description, constant for an installation."""
        with _silent(context):
            return pb.DescribeReply(description=self._airlock.release(self._describe()).message)

    def train(self, request: Iterator[pb.TrainChunk], context: grpc.ServicerContext) -> Iterator[pb.RoundEvent]:
        """Run a round; the stream may be dropped and asked for again at any time."""
        with _silent(context):
            prescription, adapter = self._received_in_time(request, context)
        if adapter is None or len(prescription) > PRESCRIPTION_LIMIT:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the adapter or prescription is larger than allowed here")
            return
        with _silent(context):
            answer = self._desk.begin(prescription, adapter)
            yield from self._follow(answer, context) if isinstance(answer, RoundJob) else _events(answer)

    def cancel(self, request: pb.RoundKey, context: grpc.ServicerContext) -> pb.CancelReply:
        """Stop the named round if it is under way."""
        return pb.CancelReply(cancelled=self._desk.cancel(request.run, request.round))

    def release(self, request: pb.RoundKey, context: grpc.ServicerContext) -> Iterator[pb.RoundEvent]:
        """Send a kept release again, unchanged."""
        try:
            outgoing = self._airlock.again(request.run, request.round)
        except FederationError:
            outgoing = None
        if outgoing is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no release of this round")
        yield from _events(outgoing)

    def _received_in_time(
        self, request: Iterator[pb.TrainChunk], context: grpc.ServicerContext
    ) -> tuple[bytes, bytes | None]:
        """As `_receive`; a caller that sends too slowly is cut off, so that it does not keep a thread."""
        timer = threading.Timer(self._receive_timeout_s, context.cancel)
        timer.daemon = True
        timer.start()
        try:
            return self._receive(request)
        finally:
            timer.cancel()

    def _receive(self, request: Iterator[pb.TrainChunk]) -> tuple[bytes, bytes | None]:
        first = next(request, pb.TrainChunk())
        adapter = bytearray()
        for chunk in request:
            adapter += chunk.adapter
            if len(adapter) > self._max_adapter_bytes:
                return first.prescription, None
        return first.prescription, bytes(adapter)

    def _follow(self, job: RoundJob, context: grpc.ServicerContext) -> Iterator[pb.RoundEvent]:
        yield pb.RoundEvent(state=job.state)
        while (outcome := job.wait(HEARTBEAT_S)) is None:
            if not context.is_active():
                return
            yield pb.RoundEvent(state=job.state)
        yield from _events(outcome)


class AdminService:
    """What the hospital's own staff may ask.

    Args:
        status: the daemon's state.
        shutdown: ends the daemon.
    """

    def __init__(self, status: Callable[[], Mapping[str, Json]], shutdown: Callable[[], None]) -> None:
        self._status = status
        self._shutdown = shutdown

    def status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusReply:
        """The daemon's state as JSON."""
        return pb.StatusReply(json=json.dumps(self._status(), sort_keys=True))

    def shutdown(self, request: pb.ShutdownRequest, context: grpc.ServicerContext) -> pb.ShutdownReply:
        """End the daemon after this reply."""
        self._shutdown()
        return pb.ShutdownReply()


def socket_server(path: Path, mode: int, add: Callable[[grpc.Server], None], workers: int = 8) -> grpc.Server:
    """Serve on a Unix socket that only `mode` lets in.

    Args:
        path: where to make the socket; a stale one is replaced, so the caller must hold the site's ledger.
        mode: file rights of the socket.
        add: registers the services.
        workers: requests served at once; more wait, and beyond `CALL_LIMIT` are turned away.

    Raises:
        ConfigurationError: the socket cannot be made.
    """
    path.unlink(missing_ok=True)
    server = grpc.server(
        ThreadPoolExecutor(workers, thread_name_prefix=path.stem),
        options=[("grpc.max_allowed_incoming_connections", CONNECTION_LIMIT)],
        maximum_concurrent_rpcs=CALL_LIMIT,
    )
    add(server)
    # The umask closes the moment between making the socket and setting its rights.
    previous = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
        server.start()
        path.chmod(mode)
    except (RuntimeError, OSError) as error:
        raise ConfigurationError(
            "cannot make the socket", where=str(path), remedy="Check the folder's rights and free space."
        ) from error
    finally:
        os.umask(previous)
    return server


@contextmanager
def _silent(context: grpc.ServicerContext) -> Iterator[None]:
    """End a call that failed with one constant word: gRPC would send the exception's own text to the relay."""
    try:
        yield
    except Exception:
        context.abort(grpc.StatusCode.INTERNAL, "failed")
        raise


def _events(outgoing: Outgoing) -> Iterator[pb.RoundEvent]:
    if not outgoing.update:
        yield pb.RoundEvent(refusal=outgoing.message)
        return
    yield pb.RoundEvent(release=outgoing.message)
    for piece in chunks(outgoing.update):
        yield pb.RoundEvent(update=piece)
