"""`bat-server gate`: the run's own gate on published summaries, for one pair of files or a stream of pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from common.errors import ConfigurationError, DataError
from server.gate import Scored
from server.published import gate_pair, parse_strictly, read_summary

__all__ = ["gate_files", "gate_lines"]

LIMIT_BYTES = 256 * 1024**2
"""Largest summary file or line: far above a million cells, far below what fills a server."""


def gate_files(baseline: Path, candidate: Path, *, healthy: bool) -> str:
    """Both published results for two summary files, as one JSON object.

    Raises:
        ConfigurationError: a file cannot be read.
        DataError: a summary is refused, or the two cannot be compared.
    """
    pair = gate_pair(_read(baseline), _read(candidate), healthy=healthy)
    return json.dumps(pair, indent=1, sort_keys=True, allow_nan=False)


def gate_lines(stream: BinaryIO, out: TextIO) -> None:
    """Answer every line `{baseline, candidate, healthy}` with a line, `{"error": …}` where it is refused.

    Args:
        stream: JSON Lines; `healthy` is true where it is missing.
        out: gets one JSON object a line.
    """
    for line in _lines(stream):
        try:
            answer = json.dumps(_gate_line(line), sort_keys=True, allow_nan=False)
        except DataError as error:
            answer = json.dumps({"error": str(error)})
        print(answer, file=out, flush=True)


def _gate_line(line: bytes) -> object:
    if len(line) > LIMIT_BYTES:
        raise DataError(f"line has more than {LIMIT_BYTES} bytes")
    value = parse_strictly(line, "line")
    if not isinstance(value, dict) or not {"baseline", "candidate"} <= value.keys():
        raise DataError("line is not an object with baseline and candidate")
    healthy = value.get("healthy", True)
    if not isinstance(healthy, bool):
        raise DataError("healthy is neither true nor false")
    baseline, candidate = (read_summary(value[name], name) for name in ("baseline", "candidate"))
    return gate_pair(baseline, candidate, healthy=healthy)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines of a stream; of one that is too long only the beginning is kept."""
    while line := stream.readline(LIMIT_BYTES + 1):
        rest = line
        while len(rest) > LIMIT_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(LIMIT_BYTES + 1)
        yield line


def _read(path: Path) -> Scored:
    try:
        with path.open("rb") as stream:
            data = stream.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError("cannot read the summary", where=str(path), remedy=f"{error.strerror}.") from error
    if len(data) > LIMIT_BYTES:
        raise DataError(f"summary has more than {LIMIT_BYTES} bytes", where=str(path))
    return read_summary(parse_strictly(data, str(path)), str(path))
