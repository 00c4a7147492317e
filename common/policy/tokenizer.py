"""The tokenizer of `bat-tiny`: byte-level BPE whose chat markers and tool-call boilerplate are single tokens.

A rollout of the tiny policy is mostly short commands and short observations, so what surrounds them decides its length.
Here a turn's boilerplate costs four tokens: the assistant header, everything from `<tool_call>` to the opening quote of
the code, everything from the closing quote to `</tool_call>`, and the end of the turn. The text stays ordinary ChatML
with JSON tool calls, which TRL's Qwen3 response template parses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

__all__ = ["CHAT_TEMPLATE", "RESPONSE_TEMPLATE", "train_tokenizer"]

PAD = "<|pad|>"
END = "<|im_end|>"

SPECIAL_TOKENS = (
    PAD,
    END,
    "<|im_start|>system\n",
    "<|im_start|>user\n",
    "<|im_start|>assistant\n",
    "<|im_start|>tool\n",
    '<tool_call>{"name": "execute_code", "arguments": {"language": "bash", "code": "',
    '<tool_call>{"name": "execute_code", "arguments": {"language": "python", "code": "',
    '"}}</tool_call>',
    "<tool_call>",
    "</tool_call>",
)
"""Matched before BPE, longest first, and never inside an observation."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') -}}"
    "{%- for call in message.tool_calls or [] -%}"
    "{%- set function = call.function or call -%}"
    "{{- '<tool_call>{\"name\": ' + function.name|tojson + ', \"arguments\": ' + function.arguments|tojson + '}"
    "</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|im_end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""Compact ChatML: no system text and no tool schema, which the cold start has taught; nothing between the turns."""

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""How transformers' `parse_response`, and with it TRL's own tool loop, reads a turn of this template."""

_WORDS = r" ?[A-Za-z_-]+| ?[0-9]|\s| ?[^\sA-Za-z0-9]"
"""Pieces that BPE may merge within: a word or option with the space before it, one digit, one other character.

An option such as ` --method` can become one token; a number is spelt digit by digit, so that copying it is copying
tokens that every number shares.
"""


def train_tokenizer(texts: Iterable[str], vocabulary: int = 1024) -> PreTrainedTokenizerFast:
    """Train the byte-level BPE tokenizer on plain text and give it chat markers and templates.

    Args:
        texts: prompts, commands and observations, without chat markers; the same texts give the same tokenizer.
        vocabulary: entries in all, the 256 bytes and the special tokens included.

    Returns:
        A fast tokenizer with pad and end-of-turn token, chat template and response template set.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, normalized=False, special=True) for text in SPECIAL_TOKENS]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.response_template = RESPONSE_TEMPLATE
    return fast
