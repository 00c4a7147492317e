"""Aggregation rules behind one interface."""

from server.aggregation.fedavg import FedAvg
from server.aggregation.interface import AggregationError, Aggregator, RuleOptions
from server.aggregation.optimizer import FedAdam
from server.aggregation.products import FedEx
from server.aggregation.residuals import ResidualLedger
from server.aggregation.rules import RULES, Rule, make_aggregator, refuse_combination

__all__ = [
    "RULES",
    "AggregationError",
    "Aggregator",
    "FedAdam",
    "FedAvg",
    "FedEx",
    "ResidualLedger",
    "Rule",
    "RuleOptions",
    "make_aggregator",
    "refuse_combination",
]
