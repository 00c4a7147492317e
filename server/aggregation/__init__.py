"""Aggregation rules behind one interface."""

from collections.abc import Callable, Mapping

from common.adapter import Adapter
from server.aggregation.fedavg import FedAvg
from server.aggregation.interface import AggregationError, Aggregator

__all__ = ["RULES", "AggregationError", "Aggregator", "FedAvg"]

RULES: Mapping[str, Callable[[Adapter], Aggregator]] = {"fedavg": FedAvg}
"""Name of a rule to its constructor, which takes the adapter that all updates of the round started from."""
