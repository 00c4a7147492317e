"""How the round loop reaches the sites: a small protocol, and its implementation on Flower's Grid and Message API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Protocol

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from common.errors import SigningError
from common.messages import SiteDescription, verify_message
from common.signing import VerifyKey
from server.verification import Reply

__all__ = ["FlowerTransport", "Transport"]

POLL_S = 0.2
"""Seconds between two looks for replies; Flower's own `send_and_receive` waits 3."""


class Transport(Protocol):
    """Carries messages; believes nothing it carries."""

    def enrol(self, keys: Mapping[str, VerifyKey], timeout_s: float) -> dict[str, SiteDescription]:
        """Find the enrolled sites.

        Args:
            keys: site name to enrolled key.
            timeout_s: how long to wait for all of them.

        Returns:
            Site name to its description, verified with its key, for every site that answered.
        """

    def exchange(
        self, prescriptions: Mapping[str, bytes], adapter: bytes, timeout_s: float
    ) -> Iterator[tuple[str, Reply]]:
        """Send each site its prescription and the adapter; yield replies as they come, each site exactly once.

        Args:
            prescriptions: site name to its signed prescription.
            adapter: safetensors bytes of the starting adapter.
            timeout_s: after this a site that has not answered gets a reply with a fault.
        """


class FlowerTransport:
    """The sites behind a Flower Grid.

    Args:
        grid: of the running ServerApp.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._nodes: dict[str, int] = {}

    def enrol(self, keys: Mapping[str, VerifyKey], timeout_s: float) -> dict[str, SiteDescription]:
        """Ask every connected node who it is; see `Transport.enrol`."""
        deadline = time.monotonic() + timeout_s
        found: dict[str, SiteDescription] = {}
        pending: dict[str, int] = {}
        asked: set[int] = set()
        while True:
            for node in set(self._grid.get_node_ids()) - asked:
                asked.add(node)
                pending[self._send(RecordDict(), "query", node)] = node
            for message in self._grid.pull_messages(list(pending)) if pending else ():
                node = pending.pop(message.metadata.reply_to_message_id)
                description = _description(message, keys)
                if description is None:
                    asked.discard(node)
                else:
                    found[description.site] = description
                    self._nodes[description.site] = node
            if found.keys() == keys.keys() or time.monotonic() > deadline:
                return found
            time.sleep(POLL_S)

    def exchange(
        self, prescriptions: Mapping[str, bytes], adapter: bytes, timeout_s: float
    ) -> Iterator[tuple[str, Reply]]:
        """One Flower message a site and round; see `Transport.exchange`."""
        deadline = time.monotonic() + timeout_s
        pending: dict[str, str] = {}
        for site, prescription in prescriptions.items():
            if site not in self._nodes:
                yield site, Reply(fault="not connected")
                continue
            pending[self._send(_train_content(prescription, adapter), "train", self._nodes[site])] = site
        while pending and time.monotonic() < deadline:
            for message in self._grid.pull_messages(list(pending)):
                yield pending.pop(message.metadata.reply_to_message_id), _reply(message)
            if pending:
                time.sleep(POLL_S)
        for site in pending.values():
            yield site, Reply(fault="no answer before the deadline")

    def _send(self, content: RecordDict, kind: str, node: int) -> str:
        message = Message(content, dst_node_id=node, message_type=kind)
        return next(iter(self._grid.push_messages([message])))


def _train_content(prescription: bytes, adapter: bytes) -> RecordDict:
    tensors = Array(dtype="uint8", shape=(len(adapter),), stype="safetensors", data=adapter)
    return RecordDict(
        {"bat": ConfigRecord({"prescription": prescription}), "adapter": ArrayRecord({"adapter": tensors})}
    )


def _reply(message: Message) -> Reply:
    if message.has_error():
        return Reply(fault=f"Flower error {message.error.code}")
    parts = message.content.config_records.get("bat", ConfigRecord())
    arrays = message.content.array_records.get("update", ArrayRecord())
    update = arrays["update"].data if "update" in arrays else b""
    fault = str(parts.get("fault", ""))
    return Reply(
        _bytes(parts.get("release")), _bytes(parts.get("refusal")), update, f"relay: {fault}"[:80] if fault else ""
    )


def _description(message: Message, keys: Mapping[str, VerifyKey]) -> SiteDescription | None:
    """The description in a reply, if an enrolled site signed it."""
    if message.has_error():
        return None
    signed = _bytes(message.content.config_records.get("bat", ConfigRecord()).get("description"))
    for site, key in keys.items():
        try:
            description = verify_message(signed, SiteDescription, key)
        except SigningError:
            continue
        if description.site == site and description.public_key == key.hex:
            return description
    return None


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
