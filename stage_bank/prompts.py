"""What the policy is told: one constant system prompt and one compact line per track and focus, nothing else."""

from __future__ import annotations

from common.stages import Focus, Track

__all__ = ["SYSTEM_PROMPT", "messages", "user_prompt"]

SYSTEM_PROMPT = "Use bat."
"""System message of every rollout; `bat help` explains the toolkit."""


def user_prompt(track: Track, focus: Focus) -> str:
    """The user message of a state: fixed for a track and a focus, so that it can carry nothing about a patient."""
    return f"track {track.value} stage {focus.value}"


def messages(prompt: str) -> list[dict[str, str]]:
    """A user message as the chat a rollout starts from."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": prompt}]
