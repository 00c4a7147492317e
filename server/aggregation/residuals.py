"""The residuals of FedEx-LoRA, round by round: signed, chained, and added up; the pinned base never changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from common.adapter import RawTensor, decode_adapter, encode_adapter
from common.canonical import Json, digest_bytes
from common.errors import LedgerError
from common.files import write_durably
from common.ledger import Ledger, read_ledger
from common.signing import SigningKey

__all__ = ["ResidualLedger"]


class ResidualLedger:
    """A folder with `residuals.jsonl`, a signed ledger, and one safetensors file a round.

    Args:
        folder: made when missing.
        key: signs every entry.
        base_model: digest of the base that the residuals belong to.
    """

    def __init__(self, folder: Path, key: SigningKey, base_model: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._base_model = base_model
        self._ledger = Ledger(folder / "residuals.jsonl", key)

    def append(self, round_number: int, residuals: Mapping[str, np.ndarray]) -> None:
        """Keep a round's residuals: layer to float32 [out, in]."""
        data = encode_adapter({layer: RawTensor.from_array(values) for layer, values in residuals.items()})
        write_durably(self._file(str(round_number)), data, mode=0o644)
        body: Json = {"round": round_number, "base_model": self._base_model, "residuals": digest_bytes(data)}
        self._ledger.append("residual", body)

    def total(self) -> dict[str, np.ndarray]:
        """Sum over all rounds, layer to float32 [out, in].

        Raises:
            LedgerError: the ledger is broken, names another base, or a file is not the one that was signed.
        """
        sums: dict[str, np.ndarray] = {}
        for event in read_ledger(self._folder / "residuals.jsonl"):
            body = event.fields
            path = self._file(str(body.get("round")))
            data = path.read_bytes() if path.exists() else b""
            if body.get("base_model") != self._base_model:
                raise LedgerError("residuals belong to another base model", where=str(path))
            if digest_bytes(data) != body.get("residuals"):
                raise LedgerError("residual file is not the one that was signed", where=str(path))
            for layer, tensor in decode_adapter(data).items():
                sums[layer] = sums.get(layer, np.float32(0.0)) + tensor.to_float32()
        return sums

    def close(self) -> None:
        """Release the ledger."""
        self._ledger.close()

    def _file(self, round_number: str) -> Path:
        return self._folder / f"residual-{round_number}.safetensors"
