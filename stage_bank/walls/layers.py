"""The byte strings that hide in one byte string: containers opened, base64 decoded, arrays told apart from text."""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import numpy as np

__all__ = ["Layer", "layers"]

_MAX_BYTES = 64 << 20
_MAX_DEPTH = 4
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(rb"[0-9A-Fa-f]{12,}")
_ESCAPE = re.compile(rb"\\u([0-9A-Fa-f]{4})")
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
    yield from _unescaped(data, note)
    yield from _narrowed(data, note)
    for inner, how in _unpacked(data):
        yield from layers(inner, depth + 1, f"{note}, {how}")


def _split(data: bytes, note: str) -> Iterator[Layer]:
    """Array bodies are binary, their headers and whatever follows them are text, and so is all that is no container."""
    if data.startswith(b"\x93NUMPY"):
        start, stop = _array_body(data)
        yield Layer(data[:start], False, note)
        yield Layer(data[start:stop], True, note)
        yield Layer(data[stop:], False, note)
    else:
        yield Layer(data, data.startswith((_PNG, b"\x1f\x8b", b"PK\x03\x04")), note)


def _array_body(data: bytes) -> tuple[int, int]:
    """Where the numbers of a NumPy file begin and end; the file may be cut short. Empty when the header is unsound."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    except (ValueError, EOFError):
        return len(data), len(data)
    if dtype.kind not in "biuf":
        return len(data), len(data)
    start = stream.tell()
    return start, min(len(data), start + dtype.itemsize * math.prod(shape))


def _decoded(data: bytes, note: str) -> Iterator[Layer]:
    """Base64 runs, read at all four alignments, because a run may begin before the encoded text does."""
    for run in _BASE64.findall(data):
        symbols = run.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):
            piece = symbols[start:]
            piece = piece[: len(piece) - (len(piece) % 4 == 1)]
            if len(piece) >= 6:
                decoded = base64.b64decode(piece + b"=" * (-len(piece) % 4))
                yield from _plain(decoded, f"{note}, in base64")


def _plain(decoded: bytes, note: str) -> Iterator[Layer]:
    """What was decoded: text only where every byte of it prints, because a wrong alignment gives chance bytes."""
    yield Layer(decoded, not _PRINTABLE.fullmatch(decoded), note)
    yield from _narrowed(decoded, note)


def _unescaped(data: bytes, note: str) -> Iterator[Layer]:
    """Hex runs at both alignments, and the text without URL and JSON escapes."""
    for run in _HEX.findall(data):
        for start in range(2):
            piece = run[start:]
            decoded = bytes.fromhex(piece[: len(piece) & ~1].decode("ascii"))
            yield from _plain(decoded, f"{note}, in hex")
    if b"%" in data:
        yield Layer(unquote_to_bytes(data), True, f"{note}, URL-encoded")
    if b"\\u" in data:
        yield Layer(_ESCAPE.sub(_character, data), True, f"{note}, in JSON escapes")


def _narrowed(data: bytes, note: str) -> Iterator[Layer]:
    """Text without compatibility forms (Unicode TR 15, NFKC): full-width letters, ligatures, invisible joiners."""
    if data.isascii():
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    narrow = "".join(sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")
    if narrow != text:
        yield Layer(narrow.encode("utf-8", "surrogatepass"), False, f"{note}, in other letters")


def _character(escape: re.Match[bytes]) -> bytes:
    return chr(int(escape.group(1), 16)).encode("utf-8", "surrogatepass")


def _unpacked(data: bytes) -> Iterator[tuple[bytes, str]]:
    if data.startswith(b"\x1f\x8b"):
        yield from ((part, "in gzip") for part in _gunzipped(data))
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


def _gunzipped(data: bytes) -> Iterator[bytes]:
    """Content of every member, as far as the file goes, and what follows the last one."""
    while data.startswith(b"\x1f\x8b"):
        unpacker = zlib.decompressobj(wbits=31)
        yield unpacker.decompress(data, _MAX_BYTES + 1)
        data = unpacker.unused_data
    yield data


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
