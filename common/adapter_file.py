"""An adapter that stays in its file: tensors are read one at a time, whenever they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from common.adapter import RawTensor
from common.errors import AdapterError

__all__ = ["AdapterFile"]

HEADER_LIMIT_BYTES = 100_000_000
"""As in the safetensors format."""


class AdapterFile(Mapping[str, RawTensor]):
    """A safetensors file as an `Adapter`, for files that were verified when they were written.

    Args:
        path: the file; it must not change meanwhile.

    Raises:
        AdapterError: it cannot be read, or is not safetensors.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as stream:
                length = int.from_bytes(stream.read(8), "little")
                if length > HEADER_LIMIT_BYTES:
                    raise ValueError("header too long")
                entries = json.loads(stream.read(length))
            entries.pop("__metadata__", None)
            self._entries = {
                name: (str(entry["dtype"]), tuple(entry["shape"]), 8 + length + entry["data_offsets"][0], _size(entry))
                for name, entry in entries.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise AdapterError("not a safetensors adapter", where=f"{path}: {str(error)[:120]}") from error

    def __getitem__(self, name: str) -> RawTensor:
        dtype, shape, start, size = self._entries[name]
        with self._path.open("rb", buffering=0) as stream:
            stream.seek(start)
            data = stream.read(size)
        if len(data) != size:
            raise AdapterError("adapter file was cut short", where=f"{self._path}: {name}")
        return RawTensor(dtype, shape, data)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _size(entry: Mapping[str, list[int]]) -> int:
    start, end = entry["data_offsets"]
    return end - start
