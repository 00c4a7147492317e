"""Finding bytes in traffic whatever form they took on the way: text encodings, base64, hex, compression."""

from __future__ import annotations

import base64
import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator

_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){6,}")
_DEPTH = 3


def spellings(text: str) -> list[bytes]:
    """The byte forms of a text."""
    forms = [
        form.encode(code) for form in (text, text.upper(), text.lower()) for code in ("utf-8", "utf-16-le", "utf-16-be")
    ]
    return list(dict.fromkeys(forms))


def found(needles: Iterable[bytes], stream: bytes) -> list[bytes]:
    """The needles that occur in the stream or in anything that can be unpacked from it."""
    wanted = list(needles)
    return sorted({needle for layer in unpacked(stream) for needle in wanted if needle in layer})


def unpacked(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """The data, and what is inside it."""
    yield data
    if depth == _DEPTH:
        return
    for match in _BASE64.finditer(data):
        text = match.group().rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):
            piece = text[start:]
            yield from unpacked(base64.b64decode(piece[: len(piece) // 4 * 4]), depth + 1)
    for match in _HEX.finditer(data):
        yield bytes.fromhex(match.group().decode())
    for inner in _inflated(data):
        yield from unpacked(inner, depth + 1)


def _inflated(data: bytes) -> Iterator[bytes]:
    openers: list[tuple[bytes, Callable[[], object]]] = [
        (b"\x1f\x8b", lambda: zlib.decompressobj(31)),
        *((bytes([0x78, level]), zlib.decompressobj) for level in (0x01, 0x5E, 0x9C, 0xDA)),
        (b"PK\x03\x04", lambda: zlib.decompressobj(-15)),
        (b"BZh", bz2.BZ2Decompressor),
        (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    ]
    for magic, opener in openers:
        start = data.find(magic)
        while start >= 0:
            body = start
            if magic == b"PK\x03\x04" and len(data) >= start + 30:
                body += 30 + int.from_bytes(data[start + 26 : start + 28], "little")
                body += int.from_bytes(data[start + 28 : start + 30], "little")
            try:
                inner = opener().decompress(data[body:])  # type: ignore[attr-defined]
            except (zlib.error, OSError, lzma.LZMAError, EOFError):
                inner = b""
            if len(inner) >= 8:
                yield inner
            start = data.find(magic, start + 1)
