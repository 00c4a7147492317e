"""A key-value cache for rows of unequal length.

Row i keeps its tokens in slots 0..length-1 without gaps, whatever the other rows do. A forward pass says for every
query token which slot it fills; a query sees exactly the slots up to its own. Slots past a row's length hold leftovers
of padding, are seen by nobody, and are overwritten when the row grows. The same object is handed to any Hugging Face
decoder as its `cache`, so no model code is repeated here.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["RaggedCache"]

_GRANULE = 64
"""Slots by which the buffers grow."""


class RaggedCache:
    """Keys and values of all layers, each a tensor [rows, heads, slots, width].

    Args:
        rows: number of sequences.
        device: where the model computes.
    """

    is_compileable = False

    def __init__(self, rows: int, device: Any = "cpu") -> None:
        self.keys: dict[int, torch.Tensor] = {}
        self.values: dict[int, torch.Tensor] = {}
        self._index = torch.arange(rows, device=device).unsqueeze(1)
        self._slots = torch.zeros_like(self._index)
        self._extent = 0

    def place(self, slots: torch.Tensor) -> torch.Tensor:
        """Say where the next forward pass writes.

        Args:
            slots: [rows, queries], the slot, and so the position, of each query token.

        Returns:
            Attention mask, boolean [rows, 1, queries, extent]: the slots each query may see.
        """
        self._slots = slots
        self._extent = int(slots.max()) + 1
        return (torch.arange(self._extent, device=slots.device) <= slots.unsqueeze(-1)).unsqueeze(1)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store one layer's new keys and values, [rows, heads, queries, width] each, and return all in use."""
        if layer_idx not in self.keys:
            self.keys[layer_idx] = self._buffer(key_states)
            self.values[layer_idx] = self._buffer(value_states)
        keys = self._grown(self.keys, layer_idx)
        values = self._grown(self.values, layer_idx)
        keys[self._index, :, self._slots] = key_states.transpose(1, 2)
        values[self._index, :, self._slots] = value_states.transpose(1, 2)
        return keys[:, :, : self._extent], values[:, :, : self._extent]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in use; asked for by models that are given no positions."""
        return self._extent

    def select(self, rows: torch.Tensor) -> RaggedCache:
        """A new cache holding copies of some rows, in the given order; a row may be taken several times."""
        chosen = RaggedCache(len(rows), rows.device)
        chosen._extent = self._extent
        slots = -(-self._extent // _GRANULE) * _GRANULE
        for layer in self.keys:
            chosen.keys[layer] = self.keys[layer][rows, :, :slots]
            chosen.values[layer] = self.values[layer][rows, :, :slots]
        return chosen

    def put_back(self, part: RaggedCache, rows: torch.Tensor, start: int) -> None:
        """Copy what `part`, made by `select(rows)`, holds from slot `start` on back into these rows."""
        self._extent = max(self._extent, part._extent)
        for layer in self.keys:
            self._grown(self.keys, layer)[rows, :, start : part._extent] = part.keys[layer][:, :, start : part._extent]
            self._grown(self.values, layer)[rows, :, start : part._extent] = part.values[layer][
                :, :, start : part._extent
            ]

    def _buffer(self, states: torch.Tensor) -> torch.Tensor:
        rows, heads, _, width = states.shape
        return states.new_zeros(rows, heads, _GRANULE, width)

    def _grown(self, buffers: dict[int, torch.Tensor], layer: int) -> torch.Tensor:
        buffer = buffers[layer]
        if buffer.shape[2] < self._extent:
            rows, heads, slots, width = buffer.shape
            wanted = -(-self._extent // _GRANULE) * _GRANULE
            grown = buffer.new_zeros(rows, heads, wanted, width)
            grown[:, :, :slots] = buffer
            buffers[layer] = grown
        return buffers[layer]
