"""Batched decoding over a cache that is kept from turn to turn.

One `Decoder` holds the rollouts of one batch. `feed` appends given tokens (a prompt, an observation), `turn` lets the
model write until every row has ended its turn. Rows that have ended early are left out of the computation once they are
the majority; rows that are over are dropped by the caller with `keep`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from common.policy.cache import RaggedCache

__all__ = ["Decoder", "Sampler"]


class Sampler:
    """Chooses tokens: greedily, or by inverting the distribution function at one uniform number a token.

    Every row has its own NumPy generator, so what a row samples depends on its seed alone, not on which other rows are
    in the batch.

    Args:
        seeds: one a row; anything `numpy.random.SeedSequence` takes.
        temperature: divides the logits; 0 is greedy.
        limit: most tokens a row can ask for.
        device: where the logits will be.
    """

    def __init__(self, seeds: Sequence[Any], temperature: float, limit: int, device: Any = "cpu") -> None:
        self._temperature = temperature
        self._asked = torch.zeros(len(seeds), dtype=torch.long, device=device)
        if temperature > 0:
            draws = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).random(limit) for seed in seeds]
            self._uniform = torch.from_numpy(np.stack(draws)).to(device)

    def choose(self, rows: torch.Tensor, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Choose one token for each of some rows.

        Args:
            rows: [n] indices into the seeds.
            logits: [n, vocabulary].

        Returns:
            Tokens [n], and their log-probabilities [n] under the distribution sampled from (temperature 1 if greedy).
        """
        if self._temperature == 0:
            log_p = torch.log_softmax(logits.float(), dim=-1)
            tokens = log_p.argmax(dim=-1)
        else:
            log_p = torch.log_softmax(logits.float() / self._temperature, dim=-1)
            mass = log_p.exp().double().cumsum(dim=-1)
            target = self._uniform[rows, self._asked[rows]].unsqueeze(1) * mass[:, -1:]
            tokens = torch.searchsorted(mass, target, right=True).squeeze(1).clamp(max=mass.shape[1] - 1)
        self._asked[rows] += 1
        return tokens, log_p.gather(1, tokens.unsqueeze(1)).squeeze(1)


class Decoder:
    """The live rows of a batch, their cache, and the logits after their last token.

    Args:
        model: Hugging Face causal language model in evaluation mode.
        prompts: token ids a row; equal prompts are computed once.
        end: the token that ends a turn.
        sampler: indexed by the rows of `prompts`.
        check: called before every forward pass; raises to stop.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        end: int,
        sampler: Sampler,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._model, self._end, self._sampler, self._check = model, end, sampler, check
        self._device = model.device
        distinct = {tuple(prompt): None for prompt in prompts}
        order = {prompt: number for number, prompt in enumerate(distinct)}
        self._cache = RaggedCache(len(distinct), self._device)
        self.lengths = torch.zeros(len(distinct), dtype=torch.long, device=self._device)
        self._logits = torch.empty(0)
        self.feed([list(prompt) for prompt in distinct])
        self.keep(torch.tensor([order[tuple(prompt)] for prompt in prompts], device=self._device))
        self.rows = torch.arange(len(prompts), device=self._device)
        """Which prompt each live row belongs to."""

    def keep(self, chosen: torch.Tensor) -> None:
        """Reduce to (or repeat) some of the live rows, by their present position."""
        self._cache = self._cache.select(chosen)
        self.lengths = self.lengths[chosen]
        self._logits = self._logits[chosen]
        if hasattr(self, "rows"):
            self.rows = self.rows[chosen]

    @torch.inference_mode()
    def feed(self, chunks: Sequence[Sequence[int]]) -> None:
        """Append tokens to every live row, each chunk of its own length of at least one."""
        longest = max(len(chunk) for chunk in chunks)
        padded = [[*chunk, *[0] * (longest - len(chunk))] for chunk in chunks]
        tokens = torch.tensor(padded, device=self._device)
        sizes = torch.tensor([len(chunk) for chunk in chunks], device=self._device)
        slots = self.lengths.unsqueeze(1) + torch.arange(longest, device=self._device)
        hidden = self._hidden(self._cache, tokens, slots)
        last = hidden[torch.arange(len(chunks), device=self._device), sizes - 1]
        self._logits = self._model.get_output_embeddings()(last)
        self.lengths = self.lengths + sizes

    @torch.inference_mode()
    def turn(self, budgets: Sequence[int]) -> tuple[list[list[int]], list[list[float]]]:
        """Let every live row write one turn.

        Args:
            budgets: most tokens a row may write, at least one.

        Returns:
            Token ids a row, the end token last where the turn ended by itself, and their log-probabilities. The last
            token of a turn is not in the cache yet: the next chunk fed has to begin with it.
        """
        count = len(self.rows)
        tokens_of: list[list[int]] = [[] for _ in range(count)]
        logps_of: list[list[float]] = [[] for _ in range(count)]
        cache, logits = self._cache, self._logits
        held = torch.arange(count, device=self._device)  # rows that `cache` holds
        live = torch.ones(count, dtype=torch.bool, device=self._device)  # of those, the ones still writing
        lent: list[tuple[RaggedCache, torch.Tensor, int]] = []
        while True:
            rows = held[live]
            tokens, logps = self._sampler.choose(self.rows[rows], logits[live])
            ended = tokens == self._end
            for row, token, logp, over in zip(
                rows.tolist(), tokens.tolist(), logps.tolist(), ended.tolist(), strict=True
            ):
                tokens_of[row].append(token)
                logps_of[row].append(logp)
                if not over and len(tokens_of[row]) >= budgets[row]:
                    ended[(rows == row)] = True
            going = ~ended
            if not bool(going.any()):
                break
            fed = torch.zeros_like(held)
            fed[live] = tokens
            live[live.clone()] = going
            if int(live.sum()) * 2 <= len(held):
                lent.append((cache, live.nonzero().squeeze(1), int(self.lengths[held[live]].min())))
                cache = cache.select(lent[-1][1])
                held, fed, live = held[live], fed[live], live[live]
            slots = self.lengths[held].unsqueeze(1)
            hidden = self._hidden(cache, fed.unsqueeze(1), slots)
            logits = self._model.get_output_embeddings()(hidden[:, 0])
            self.lengths[held[live]] += 1
        for parent, rows, start in reversed(lent):
            parent.put_back(cache, rows, start)
            cache = parent
        return tokens_of, logps_of

    def _hidden(self, cache: RaggedCache, tokens: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        self._check()
        mask = cache.place(slots)
        output = self._model.base_model(
            input_ids=tokens, attention_mask=mask, position_ids=slots, cache=cache, use_cache=True
        )
        hidden: torch.Tensor = output.last_hidden_state
        return hidden
