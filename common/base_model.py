"""Facts about a base model that both sides must agree on, read without a deep-learning library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from common.adapter import AdapterSpec, decode_adapter
from common.canonical import digest_file, digest_json
from common.errors import ConfigurationError

__all__ = ["INITIAL_ADAPTER", "BaseModel", "read_base_model"]

INITIAL_ADAPTER = "initial_adapter.safetensors"
"""File in the model's folder: the adapter every run starts from (A seeded, B zero). It fixes names and shapes."""


@dataclass(frozen=True)
class BaseModel:
    """An approved base model on disk.

    Args:
        folder: its files.
        digest: SHA-256 over every file's relative path and SHA-256.
        spec: the adapter it takes.
        initial_adapter: safetensors bytes of the adapter that round 1 starts from.
    """

    folder: Path
    digest: str
    spec: AdapterSpec
    initial_adapter: bytes


def read_base_model(folder: Path) -> BaseModel:
    """Hash a model's folder and read its initial adapter.

    Raises:
        ConfigurationError: the folder or its initial adapter is missing or cannot be read.
        AdapterError: the initial adapter is not a valid adapter.
    """
    try:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digest = digest_json({path.relative_to(folder).as_posix(): digest_file(path) for path in files})
        initial = (folder / INITIAL_ADAPTER).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            "cannot read the base model", where=str(error.filename or folder), remedy="Set `model` to its folder."
        ) from error
    return BaseModel(folder, digest, AdapterSpec.of(decode_adapter(initial)), initial)
