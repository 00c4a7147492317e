"""The one door of a site: everything that leaves goes through `Airlock.release`, or is such a release sent again.

A message leaves only if its type and every field stand in `RELEASE_SCHEMA`, if its update holds exactly the adapter's
tensors with finite values and is no larger than the site allows, and after the ledger has recorded what leaves. A
description or refusal that leaves again unchanged is recorded the first time since the daemon's start.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from client.history import RELEASED, SiteHistory
from common.adapter import AdapterSpec, decode_adapter, encode_adapter
from common.canonical import Json, digest_bytes
from common.errors import AdapterError, FederationError
from common.files import write_durably
from common.ledger import Ledger
from common.messages import RELEASE_SCHEMA, Leaves, Refusal, Release, SiteDescription, sign_message
from common.signing import SigningKey

__all__ = ["Airlock", "Outgoing", "SiteMessage"]

SiteMessage: TypeAlias = Release | Refusal | SiteDescription


@dataclass(frozen=True)
class Outgoing:
    """Bytes that may leave.

    Args:
        message: a signed site message.
        update: safetensors of the adapter update; empty for anything but a release.
    """

    message: bytes
    update: bytes = b""


class Airlock:
    """Checks, records, signs and keeps what leaves.

    Args:
        ledger: the site's ledger.
        history: the site's memory; it learns of every release.
        key: the site's signing key.
        outbox: folder in which releases are kept for sending again.
        max_update_bytes: size limit of one update, from the site's policy.
    """

    def __init__(
        self, ledger: Ledger, history: SiteHistory, key: SigningKey, outbox: Path, max_update_bytes: int
    ) -> None:
        self._ledger = ledger
        self._history = history
        self._key = key
        self._outbox = outbox
        self._max_update_bytes = max_update_bytes
        self._lock = threading.Lock()
        # The untrusted relay may ask without end: the same answer again adds nothing to the ledger.
        self._recorded: set[str] = set()

    def release(self, message: SiteMessage, update: bytes = b"", spec: AdapterSpec | None = None) -> Outgoing:
        """Let one message out.

        Args:
            message: what to say; its fields must all be listed in `RELEASE_SCHEMA`.
            update: for a `Release`, the safetensors bytes it describes.
            spec: for a `Release`, the adapter whose update it is.

        Returns:
            The signed bytes; for the same message and key always the same.

        Raises:
            AdapterError: the update has another tensor than `spec` or any other byte, is not finite, is too large or
                is not the one described.
            FederationError: the message or one of its fields is not in the schema, or the round was already answered.
        """
        _check_schema(message)
        body = message.model_dump(mode="json")
        with self._lock:
            if isinstance(message, Release):
                return self._release_update(message, update, spec)
            if update:
                raise FederationError("only a release may carry tensors", where=type(message).__name__)
            outgoing = Outgoing(sign_message(message, self._key))
            digest = digest_bytes(outgoing.message)
            if digest not in self._recorded:
                self._ledger.append(type(message).__name__.lower(), {**body, "message": digest})
                self._recorded.add(digest)
            return outgoing

    def again(self, run: str, round_number: int) -> Outgoing | None:
        """The release of a round, byte for byte as it left first; `None` when there was none.

        Raises:
            FederationError: the kept files were changed since.
        """
        body = self._history.released.get((run, round_number))
        if body is None:
            return None
        folder = self._folder(run, round_number)
        try:
            outgoing = Outgoing((folder / "release.json").read_bytes(), (folder / "update.safetensors").read_bytes())
        except OSError as error:
            raise FederationError("a kept release cannot be read", where=str(folder)) from error
        if digest_bytes(outgoing.message) != body["message"] or digest_bytes(outgoing.update) != body["update"]:
            raise FederationError("a kept release is not the one that left", where=str(folder))
        return outgoing

    def _release_update(self, message: Release, update: bytes, spec: AdapterSpec | None) -> Outgoing:
        if (message.run, message.round) in self._history.released:
            raise FederationError("this round was already answered", where=f"{message.run} round {message.round}")
        if spec is None or spec.digest != message.adapter_spec:
            raise AdapterError("the release names another adapter specification", where=message.site)
        if len(update) > self._max_update_bytes:
            raise AdapterError(f"update of {len(update)} bytes is over the limit", where="policy.max_update_bytes")
        if (digest_bytes(update), len(update)) != (message.update, message.update_bytes):
            raise AdapterError("the release describes other bytes than its update", where=message.site)
        tensors = decode_adapter(update, spec.of_update)
        if encode_adapter(tensors) != update:
            raise AdapterError("the update holds bytes beside its tensors", where=message.site)
        outgoing = Outgoing(sign_message(message, self._key), update)
        folder = self._folder(message.run, message.round)
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / "update.safetensors", outgoing.update)
        write_durably(folder / "release.json", outgoing.message)
        body: dict[str, Json] = {
            "run": message.run,
            "round": message.round,
            "prescription": message.prescription,
            "message": digest_bytes(outgoing.message),
            "update": message.update,
            "bytes": len(update),
            "tensors": len(tensors),
            "epsilon": message.epsilon,
        }
        # On disk and in the ledger before a byte leaves: a crash in between leaves a release that can be sent again.
        self._ledger.append(RELEASED, body)
        self._history.note(RELEASED, body)
        return outgoing

    def _folder(self, run: str, round_number: int) -> Path:
        return self._outbox / run / str(round_number)


def _check_schema(message: SiteMessage) -> None:
    schema = RELEASE_SCHEMA.get(type(message))
    if schema is None or set(schema) != set(type(message).model_fields):
        raise FederationError("this message may not leave a site", where=type(message).__name__)
    private = getattr(message, "epsilon", None) is not None
    forbidden = [name for name, leaves in schema.items() if leaves is Leaves.FORBIDDEN_WITH_DP]
    if private and forbidden:
        raise FederationError("a field may not leave under differential privacy", where=forbidden[0])
