"""The byte strings that hide in one byte string: containers opened, base64 decoded, arrays told apart from text."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Layer", "layers"]

_MAX_BYTES = 64 << 20
_MAX_DEPTH = 4
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{8,}={0,2}")
_PRINTABLE = re.compile(rb"[\x20-\x7e\s]+")
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Layer:
    """One byte string to search.

    Args:
        data: the bytes.
        binary: whether it is array or compressed data, where short strings occur by chance.
        note: how it was found, as an addition to a message.
    """

    data: bytes
    binary: bool
    note: str = ""


def layers(data: bytes, depth: int = 0, note: str = "") -> Iterator[Layer]:
    """Yield `data` itself and everything that can be unpacked from it, recursively.

    Raises:
        ValueError: nested deeper, or larger, than any state needs to be.
    """
    if len(data) > _MAX_BYTES or depth > _MAX_DEPTH:
        raise ValueError("too large or too deeply nested to be searched")
    yield from _split(data, note)
    yield from _decoded(data, note)
    for inner, how in _unpacked(data):
        yield from layers(inner, depth + 1, f"{note}, {how}")


def _split(data: bytes, note: str) -> Iterator[Layer]:
    """Array headers are text, array bodies are not; anything else counts as text unless it is a known container."""
    if data.startswith(b"\x93NUMPY"):
        stream = io.BytesIO(data)
        array = np.load(stream, allow_pickle=False)
        body = len(data) - array.nbytes
        if stream.tell() == len(data) and array.dtype.kind in "biuf":
            yield Layer(data[:body], False, note)
            yield Layer(data[body:], True, note)
            return
    yield Layer(data, data.startswith((_PNG, b"\x1f\x8b", b"PK\x03\x04")), note)


def _decoded(data: bytes, note: str) -> Iterator[Layer]:
    """Base64 runs, read at all four alignments, because a run may begin before the encoded text does."""
    for run in _BASE64.findall(data):
        symbols = run.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):
            piece = symbols[start:]
            piece = piece[: len(piece) - (len(piece) % 4 == 1)]
            if len(piece) >= 6:
                decoded = base64.b64decode(piece + b"=" * (-len(piece) % 4))
                yield Layer(decoded, not _PRINTABLE.fullmatch(decoded), f"{note}, in base64")


def _unpacked(data: bytes) -> Iterator[tuple[bytes, str]]:
    if data.startswith(b"\x1f\x8b"):
        with gzip.open(io.BytesIO(data)) as stream:
            yield stream.read(_MAX_BYTES + 1), "in gzip"
    elif data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                with archive.open(member) as entry:
                    yield entry.read(_MAX_BYTES + 1), "in zip"
                yield member.filename.encode() + b"\n" + member.comment, "in zip"
    elif data.startswith(_PNG):
        yield from ((text, "in PNG") for text in _png_texts(data))
    elif data[:1] == b"\x78" and data[1:2] in b"\x01\x5e\x9c\xda":
        try:
            yield zlib.decompressobj().decompress(data, _MAX_BYTES + 1), "in zlib"
        except zlib.error:
            return


def _png_texts(data: bytes) -> Iterator[bytes]:
    """Content of every chunk but the picture's own, inflated where it is compressed, and what follows the end."""
    position = len(_PNG)
    while position + 12 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        position += 12 + length
        if kind not in (b"IDAT", b"IHDR", b"PLTE"):
            yield body
            head, _, packed = body.partition(b"\0")
            for candidate in (packed[1:], packed[2:].split(b"\0", 2)[-1]):
                try:
                    yield head + b"\n" + zlib.decompressobj().decompress(candidate, _MAX_BYTES + 1)
                except (zlib.error, binascii.Error):
                    continue
        if kind == b"IEND":
            break
    yield data[position:]
