"""Dialogue as token ids: what the model is shown, what it is taught, and what its turns mean.

The cold start, the rollouts of training and the held-out evaluation all build token sequences from the pieces here, so
that the policy meets in evaluation exactly the tokens it was trained on. A sequence is only ever appended to: earlier
turns are never rendered again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from transformers import PreTrainedTokenizerBase

from common.errors import ConfigurationError

__all__ = ["TOOL", "TOOL_SCHEMA", "Dialogue", "ToolCall", "parse_turn"]

TOOL = "execute_code"
"""The only tool of the project."""

TOOL_SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": "Run code in the workspace and return what it printed.",
        "parameters": {
            "type": "object",
            "properties": {
                "language": {"type": "string", "enum": ["bash", "python"], "description": "Interpreter."},
                "code": {"type": "string", "description": "The program."},
            },
            "required": ["language", "code"],
        },
    },
}
"""Shown to models whose chat template renders tools; the compact template of `bat-tiny` does not."""

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_MARK = "@@observation@@"


@dataclass(frozen=True)
class ToolCall:
    """One call of `execute_code` as the model wrote it."""

    language: str
    code: str


def parse_turn(text: str) -> list[ToolCall] | None:
    """Read the tool calls of one assistant turn.

    Args:
        text: the decoded turn, special tokens included.

    Returns:
        The calls in order, empty for a turn without any, or `None` where the turn tries to call a tool but is
        malformed: a call that is not closed, not JSON, or not a call of `execute_code` with two strings.
    """
    calls = []
    for body in _CALL.findall(text):
        try:
            request = json.loads(body)
            arguments = request["arguments"]
            language, code = arguments["language"], arguments["code"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if request.get("name") != TOOL or not isinstance(language, str) or not isinstance(code, str):
            return None
        calls.append(ToolCall(language, code))
    rest = _CALL.sub("", text)
    return None if "<tool_call>" in rest or "</tool_call>" in rest else calls


class Dialogue:
    """Renders the pieces of a dialogue with one tokenizer.

    Args:
        tokenizer: has a chat template that renders tool calls and tool messages.

    Raises:
        ConfigurationError: the tokenizer has no such template, or no end-of-turn token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if tokenizer.chat_template is None or tokenizer.eos_token_id is None:
            raise ConfigurationError(
                "the policy's tokenizer has no chat template or no end-of-turn token",
                remedy="Use an instruction-tuned model with a tool-calling chat template.",
            )
        self.tokenizer = tokenizer
        self.end: int = tokenizer.eos_token_id

    def prompt(self, text: str) -> list[int]:
        """Token ids of a user message followed by the header of the assistant's first turn."""
        return self._encode(self._render([{"role": "user", "content": text}], tools=[TOOL_SCHEMA]))

    def observation(self, text: str) -> list[int]:
        """Token ids between the end of a turn that called a tool and the start of the next turn.

        Markers of the chat format inside `text` are encoded as plain text: what a program prints cannot end its own
        message or pretend to be another role.
        """
        before, after = self._around_observation
        return [*before, *self._encode_plain(text), *after]

    def call(self, code: str, language: str = "bash") -> list[int]:
        """Token ids of an assistant turn that makes one call, its end-of-turn token included."""
        request = json.dumps({"name": TOOL, "arguments": {"language": language, "code": code}}, ensure_ascii=False)
        return [*self._encode(f"<tool_call>{request}</tool_call>"), self.end]

    def closing(self, text: str) -> list[int]:
        """Token ids of the last assistant turn, without a call, its end-of-turn token included."""
        return [*self._encode_plain(text), self.end]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a turn with its special tokens, the final end-of-turn token left out."""
        kept = ids[:-1] if ids and ids[-1] == self.end else ids
        return str(self.tokenizer.decode(list(kept), skip_special_tokens=False))

    def _render(self, messages: list[Any], **options: Any) -> str:
        template = self.tokenizer.apply_chat_template
        return str(template(messages, tokenize=False, add_generation_prompt=True, **options))

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return ids

    @cached_property
    def _around_observation(self) -> tuple[list[int], list[int]]:
        call = {"type": "function", "function": {"name": TOOL, "arguments": {"language": "bash", "code": "true"}}}
        rendered = self._render(
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "name": TOOL, "content": _MARK},
            ]
        )
        end = str(self.tokenizer.convert_ids_to_tokens(self.end))
        head, found, after = rendered.partition(_MARK)
        if not found or end not in head:
            raise ConfigurationError("the policy's chat template does not render tool messages")
        before = head[head.rindex(end) + len(end) :]
        return self._encode(before), self._encode(after)
