"""What host and fork server say to each other.

One `SOCK_SEQPACKET` message carries one JSON object and its descriptors, so a message is never torn or merged. The
server holds no rollout's data, not even a path, because every later child inherits a copy of its memory: code and
output travel through descriptors that only the child of that execution uses.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["MAXIMUM_DESCRIPTORS", "receive", "send"]

_MESSAGE_BYTES = 1 << 16
MAXIMUM_DESCRIPTORS = 4


def send(channel: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message and copies of `descriptors`."""
    socket.send_fds(channel, [json.dumps(message).encode()], descriptors)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors (not inherited on exec), or `None` when the other side is gone.

    Raises:
        ValueError: not a JSON object.
        OSError: the channel failed.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, MAXIMUM_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if not data:
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message, descriptors
