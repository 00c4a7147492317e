"""A policy: a causal language model with its tokenizer, loaded from a folder and known by the digest of its files."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from common.canonical import digest_file, digest_json
from common.errors import ConfigurationError
from common.policy.chat import Dialogue

__all__ = ["Policy", "fresh_tiny_model", "load_policy", "policy_digest", "save_policy", "share_parameters"]


@dataclass(frozen=True)
class Policy:
    """A frozen base model, ready to decode or to carry an adapter.

    Args:
        model: in evaluation mode, no parameter requires a gradient.
        tokenizer: with a tool-calling chat template.
        dialogue: the tokenizer's rendering of turns.
        digest: SHA-256 over the folder's files; what prescriptions and releases call the base model.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    dialogue: Dialogue
    digest: str

    @property
    def context(self) -> int:
        """Longest sequence in tokens the model can take."""
        return int(self.model.config.max_position_embeddings)

    def with_model(self, model: nn.Module) -> Policy:
        """The same policy around another model of the same architecture."""
        return replace(self, model=model)


def fresh_tiny_model(tokenizer: PreTrainedTokenizerBase, seed: int) -> LlamaForCausalLM:
    """An untrained `bat-tiny`: Llama with 4 layers of width 128, about 1.2 million parameters.

    Args:
        tokenizer: its vocabulary sizes the embedding (tied with the output layer).
        seed: of the initial weights; torch's global generator is left as it was.
    """
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def policy_digest(folder: Path) -> str:
    """SHA-256 over the relative paths and contents of a policy folder's files, 64 hex digits."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest_json({path.relative_to(folder).as_posix(): digest_file(path) for path in files})


def save_policy(model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write model and tokenizer to a folder."""
    disable_progress_bar()  # type: ignore[no-untyped-call]
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load_policy(folder: Path | str, dtype: torch.dtype = torch.float32) -> Policy:
    """Load a causal language model with its tokenizer from a local folder; nothing is fetched.

    Only safetensors are read, and no code that lies in the folder is run.

    Args:
        folder: what `save_policy` or `save_pretrained` wrote.
        dtype: of the weights; adapters stay float32.

    Raises:
        ConfigurationError: no such folder, or it does not hold a model and tokenizer that can be used.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise ConfigurationError(
            "no policy there",
            where=str(folder),
            remedy="Make one with `bat-server cold-start`, or pass a model folder.",
        )
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError("the policy cannot be loaded", where=f"{folder}: {str(error)[:160]}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.requires_grad_(False)
    model.train(False)
    return Policy(model, tokenizer, Dialogue(tokenizer), policy_digest(folder))


def share_parameters(model: nn.Module) -> nn.Module:
    """Copy the module tree but not the tensors, so that wrapping or patching the copy leaves `model` untouched."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, memo={id(tensor): tensor for tensor in tensors})
