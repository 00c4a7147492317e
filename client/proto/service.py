"""Typed access to the two services of `relay.proto`, by hand: the gRPC plugin's output carries no types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import grpc

from client.proto import relay_pb2 as pb

__all__ = [
    "CHUNK_BYTES",
    "AdminServicer",
    "AdminStub",
    "RelayServicer",
    "RelayStub",
    "add_admin",
    "add_relay",
    "chunks",
]

CHUNK_BYTES = 1 << 20
"""Tensor bytes in one message, well below gRPC's limit of 4 MB."""

_RELAY = "bat.site.v1.Relay"
_ADMIN = "bat.site.v1.Admin"


def chunks(data: bytes) -> Iterator[bytes]:
    """Cut `data` into pieces of at most `CHUNK_BYTES`."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


class RelayServicer(Protocol):
    """What the daemon implements for the relay socket."""

    def describe(self, request: pb.DescribeRequest, context: grpc.ServicerContext) -> pb.DescribeReply:
        """Answer with a signed description of the site."""

    def train(self, request: Iterator[pb.TrainChunk], context: grpc.ServicerContext) -> Iterator[pb.RoundEvent]:
        """Run one round and stream states, then the release or a refusal."""

    def cancel(self, request: pb.RoundKey, context: grpc.ServicerContext) -> pb.CancelReply:
        """Stop the named round if it is under way."""

    def release(self, request: pb.RoundKey, context: grpc.ServicerContext) -> Iterator[pb.RoundEvent]:
        """Send the named round's release again."""


class AdminServicer(Protocol):
    """What the daemon implements for the admin socket."""

    def status(self, request: pb.StatusRequest, context: grpc.ServicerContext) -> pb.StatusReply:
        """Answer with the daemon's state as JSON."""

    def shutdown(self, request: pb.ShutdownRequest, context: grpc.ServicerContext) -> pb.ShutdownReply:
        """End the daemon."""


def add_relay(server: grpc.Server, servicer: RelayServicer) -> None:
    """Serve the relay service on `server`."""
    handlers = {
        "Describe": grpc.unary_unary_rpc_method_handler(
            servicer.describe, pb.DescribeRequest.FromString, pb.DescribeReply.SerializeToString
        ),
        "Train": grpc.stream_stream_rpc_method_handler(
            servicer.train, pb.TrainChunk.FromString, pb.RoundEvent.SerializeToString
        ),
        "Cancel": grpc.unary_unary_rpc_method_handler(
            servicer.cancel, pb.RoundKey.FromString, pb.CancelReply.SerializeToString
        ),
        "Release": grpc.unary_stream_rpc_method_handler(
            servicer.release, pb.RoundKey.FromString, pb.RoundEvent.SerializeToString
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_RELAY, handlers),))


def add_admin(server: grpc.Server, servicer: AdminServicer) -> None:
    """Serve the admin service on `server`."""
    handlers = {
        "Status": grpc.unary_unary_rpc_method_handler(
            servicer.status, pb.StatusRequest.FromString, pb.StatusReply.SerializeToString
        ),
        "Shutdown": grpc.unary_unary_rpc_method_handler(
            servicer.shutdown, pb.ShutdownRequest.FromString, pb.ShutdownReply.SerializeToString
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_ADMIN, handlers),))


class RelayStub:
    """Caller's side of the relay service.

    Args:
        channel: an open channel to the relay socket.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self.describe: Callable[..., pb.DescribeReply] = channel.unary_unary(
            f"/{_RELAY}/Describe", pb.DescribeRequest.SerializeToString, pb.DescribeReply.FromString
        )
        self.train: Callable[..., Iterable[pb.RoundEvent]] = channel.stream_stream(
            f"/{_RELAY}/Train", pb.TrainChunk.SerializeToString, pb.RoundEvent.FromString
        )
        self.cancel: Callable[..., pb.CancelReply] = channel.unary_unary(
            f"/{_RELAY}/Cancel", pb.RoundKey.SerializeToString, pb.CancelReply.FromString
        )
        self.release: Callable[..., Iterable[pb.RoundEvent]] = channel.unary_stream(
            f"/{_RELAY}/Release", pb.RoundKey.SerializeToString, pb.RoundEvent.FromString
        )


class AdminStub:
    """Caller's side of the admin service.

    Args:
        channel: an open channel to the admin socket.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self.status: Callable[..., pb.StatusReply] = channel.unary_unary(
            f"/{_ADMIN}/Status", pb.StatusRequest.SerializeToString, pb.StatusReply.FromString
        )
        self.shutdown: Callable[..., pb.ShutdownReply] = channel.unary_unary(
            f"/{_ADMIN}/Shutdown", pb.ShutdownRequest.SerializeToString, pb.ShutdownReply.FromString
        )
