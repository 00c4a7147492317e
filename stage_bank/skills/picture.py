"""A tiny PNG of a pipeline: one box a step, joined by a line."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

__all__ = ["pipeline_picture", "write_png"]

BOX, GAP = 14, 6


def write_png(grey: npt.NDArray[np.uint8]) -> bytes:
    """Encode an 8-bit grey image [rows, columns] as PNG (ISO/IEC 15948), without filtering."""
    rows, columns = grey.shape
    scanlines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(grey))
    header = struct.pack(">2I5B", columns, rows, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(scanlines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def pipeline_picture(shades: tuple[int, ...]) -> bytes:
    """Boxes from left to right, one a step, each filled with its shade (0 black to 255 white)."""
    width = len(shades) * (BOX + GAP) + GAP
    canvas = np.full((BOX + 2 * GAP, width), 255, dtype=np.uint8)
    canvas[GAP + BOX // 2, GAP : width - GAP] = 0
    for step, shade in enumerate(shades):
        left = GAP + step * (BOX + GAP)
        canvas[GAP : GAP + BOX, left : left + BOX] = 0
        canvas[GAP + 1 : GAP + BOX - 1, left + 1 : left + BOX - 1] = shade
    return write_png(canvas)
