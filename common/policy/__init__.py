"""Policies: the tiny model and its tokenizer, adapters, and batched rollouts. Importing this loads torch."""

from common.policy.adapter import (
    MergedModel,
    adapter_spec,
    attach_adapter,
    export_adapter,
    freeze_factor,
    load_adapter,
    with_adapter,
    zero_adapter,
)
from common.policy.chat import TOOL, Dialogue, ToolCall, parse_turn
from common.policy.policy import Policy, fresh_tiny_model, load_policy, policy_digest, save_policy
from common.policy.rollout import Ending, ToolEnvironment, Trajectory, rollout
from common.policy.tokenizer import train_tokenizer

__all__ = [
    "TOOL",
    "Dialogue",
    "Ending",
    "MergedModel",
    "Policy",
    "ToolCall",
    "ToolEnvironment",
    "Trajectory",
    "adapter_spec",
    "attach_adapter",
    "export_adapter",
    "freeze_factor",
    "fresh_tiny_model",
    "load_adapter",
    "load_policy",
    "parse_turn",
    "policy_digest",
    "rollout",
    "save_policy",
    "train_tokenizer",
    "with_adapter",
    "zero_adapter",
]
