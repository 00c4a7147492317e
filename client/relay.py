"""The relay: a Flower ClientApp that carries bytes between Flower and the site daemon's relay socket.

It is untrusted: it sees no image, bank or key, and can do nothing that the relay socket does not offer. It starts anew
for every message, so it imports Flower, gRPC and nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from flwr.app import Array, ArrayRecord, ConfigRecord, ConfigRecordValues, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from client.proto import relay_pb2 as pb
from client.proto.service import RelayStub, chunks

__all__ = ["app"]

CONNECT_TIMEOUT_S = 10.0
"""How long a daemon that is just starting is waited for."""

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer who this site is."""
    try:
        with _channel(context) as channel:
            reply = RelayStub(channel).describe(pb.DescribeRequest(), timeout=CONNECT_TIMEOUT_S)
        parts: dict[str, ConfigRecordValues] = {"description": reply.description}
    except (grpc.RpcError, grpc.FutureTimeoutError) as error:
        parts = {"fault": _fault(error)}
    return Message(RecordDict({"bat": ConfigRecord(parts)}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Hand a prescription and its adapter to the daemon; bring back its release or refusal."""
    prescription = message.content.config_records["bat"]["prescription"]
    adapter = message.content.array_records["adapter"]["adapter"].data
    parts: dict[str, ConfigRecordValues] = {}
    update = bytearray()
    try:
        with _channel(context) as channel:
            for event in RelayStub(channel).train(_request(prescription, adapter)):
                part = event.WhichOneof("part")
                if part == "update":
                    update += event.update
                elif part in ("release", "refusal"):
                    parts[part] = getattr(event, part)
    except (grpc.RpcError, grpc.FutureTimeoutError) as error:
        parts = {"fault": _fault(error)}
    content = RecordDict({"bat": ConfigRecord(parts)})
    if "release" in parts:
        content["update"] = ArrayRecord({"update": _array(bytes(update))})
    return Message(content, reply_to=message)


@contextmanager
def _channel(context: Context) -> Iterator[grpc.Channel]:
    """The relay socket that the hospital named when it started the SuperNode, once it answers."""
    with grpc.insecure_channel(f"unix:{context.node_config['relay-socket']}") as channel:
        grpc.channel_ready_future(channel).result(timeout=CONNECT_TIMEOUT_S)
        yield channel


def _request(prescription: ConfigRecordValues, adapter: bytes) -> Iterator[pb.TrainChunk]:
    if isinstance(prescription, bytes):
        yield pb.TrainChunk(prescription=prescription)
    for piece in chunks(adapter):
        yield pb.TrainChunk(adapter=piece)


def _array(data: bytes) -> Array:
    """Bytes as a Flower array, which Flower moves in chunks."""
    return Array(dtype="uint8", shape=(len(data),), stype="safetensors", data=data)


def _fault(error: Exception) -> str:
    """A constant word for what went wrong with the socket; never the daemon's own text."""
    return "unreachable" if isinstance(error, grpc.FutureTimeoutError) else "failed"
