"""A run on disk: settings, ledger, rounds, metrics and the checkpoint from which it can be continued.

runs/<id>/
  config.toml         the settings, with absolute paths
  versions.json       package to version
  server.pub          the key that signs the ledger, 64 hex digits
  ledger.jsonl        signed, hash-chained record of the server
  state.json          how far the run is; replaced atomically after every step
  metrics.jsonl       one line a round, 0 being the cold start; the ledger names the digest of each
  rounds/<n>/
    prescriptions/<site>.json   signed, as sent
    releases/<site>.json        signed, as received
    updates/<site>.safetensors  only until the round is aggregated
    candidate.safetensors       the aggregated adapter
    evaluation.json, cells.json, gate.json
  adapter.safetensors the standing (last promoted) adapter
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from common.canonical import Json, digest_bytes
from common.errors import ConfigurationError
from common.files import write_durably, writing
from common.ledger import Ledger
from common.signing import SigningKey
from server.config import FederationConfig

__all__ = ["RunDirectory", "write_file", "write_json"]

_PACKAGES = ("federated-bat", "flwr", "torch", "transformers", "trl", "peft", "numpy", "cryptography", "grpcio")


class RunDirectory:
    """Files of one run.

    Args:
        path: the directory.
        key: the server's signing key.
    """

    def __init__(self, path: Path, key: SigningKey) -> None:
        self.path = path
        self.ledger = Ledger(path / "ledger.jsonl", key)

    @classmethod
    def create(cls, path: Path, config: FederationConfig, key: SigningKey) -> RunDirectory:
        """Start a run directory.

        Args:
            path: must not hold a run yet.
            config: the settings, kept as `config.toml`.
            key: the server's signing key.

        Raises:
            ConfigurationError: there is a run already, or the directory cannot be written.
        """
        if (path / "ledger.jsonl").exists():
            raise ConfigurationError("there is a run already", where=str(path), remedy="Choose another run name.")
        with writing("the run directory", path):
            (path / "rounds").mkdir(parents=True, exist_ok=True)
            write_file(path / "config.toml", config.to_toml().encode())
            write_json(path / "versions.json", _versions())
            write_file(path / "server.pub", key.public.hex.encode() + b"\n")
        return cls(path, key)

    def round(self, number: int) -> Path:
        """Folder of a round, made when missing."""
        folder = self.path / "rounds" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def checkpoint(self, state: Mapping[str, Json]) -> None:
        """Replace `state.json`."""
        write_json(self.path / "state.json", state)

    def metrics(self, record: Mapping[str, Json]) -> None:
        """Append one line to `metrics.jsonl`, and its digest to the ledger."""
        line = json.dumps(record).encode() + b"\n"
        with (self.path / "metrics.jsonl").open("ab") as stream:
            stream.write(line)
        self.ledger.append("metrics", {"round": record["round"], "line": digest_bytes(line)})

    def close(self) -> None:
        """Release the ledger."""
        self.ledger.close()


def write_json(path: Path, value: Json) -> None:
    """Write JSON for reading by people, atomically."""
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n")


def write_file(path: Path, data: bytes) -> None:
    """Write a file that every user of the machine may read, atomically; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, data, mode=0o644)


def _versions() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
