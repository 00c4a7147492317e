"""The rules by name, what each can be combined with, and the combinations that are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from common.adapter import Adapter
from common.errors import ConfigurationError
from server.aggregation.fedavg import FedAvg, OneFactor
from server.aggregation.flora import Flora
from server.aggregation.interface import Aggregator, RuleOptions
from server.aggregation.products import FedEx, FlexLora
from server.aggregation.robust import CoordinateMedian, Krum, MultiKrum, NormBound, TrimmedMean

__all__ = ["RULES", "Rule", "make_aggregator", "refuse_combination"]


@dataclass(frozen=True)
class Rule:
    """A rule and what is true of it; docs/aggregation.md shows the same as a table.

    Args:
        make: builds the aggregator from the adapter that all updates of the round started from.
        linear: the candidate is a weighted sum of the updates, so that a server which knows only their sum can form it.
        exact: the candidate's products are the mean of the sites' products.
        private: may be used with differential privacy, where a round trains one factor.
        streams: memory does not grow with the number of sites.
        runs: a run can use it: the candidate alone, in the adapter's own shapes, is the new policy.
    """

    make: Callable[[Adapter, RuleOptions], Aggregator]
    linear: bool = False
    exact: bool = False
    private: bool = False
    streams: bool = False
    runs: bool = True


RULES: Mapping[str, Rule] = {
    "fedavg": Rule(FedAvg, linear=True, private=True, streams=True),
    "ffa": Rule(partial(OneFactor, rule="ffa"), linear=True, exact=True, private=True, streams=True),
    "rolora": Rule(partial(OneFactor, rule="rolora"), linear=True, exact=True, private=True, streams=True),
    "fedex": Rule(FedEx, exact=True, streams=True, runs=False),
    "flora": Rule(Flora, exact=True, runs=False),
    "flexlora": Rule(FlexLora, streams=True),
    "median": Rule(CoordinateMedian),
    "trimmed_mean": Rule(TrimmedMean),
    "krum": Rule(Krum),
    "multi_krum": Rule(MultiKrum),
}


def make_aggregator(name: str, previous: Adapter, options: RuleOptions) -> Aggregator:
    """One round's aggregator, behind the norm bound where there is one."""
    rule = RULES[name].make(previous, options)
    return rule if options.norm_bound is None else NormBound(rule, options.norm_bound)


def refuse_combination(
    name: str,
    *,
    masked: bool = False,
    private: bool = False,
    compression: str = "none",
    norm_bound: float | None = None,
    drift_detection: bool = False,
) -> None:
    """Refuse settings that would give a wrong or unprotected result.

    Args:
        name: the rule.
        masked: secure aggregation is on: the server sees only the sum of the updates.
        private: differential privacy is on.
        compression: of updates; `none` sends them as they are.
        norm_bound: the server scales updates to it.
        drift_detection: the server compares each site's update with the aggregate.

    Raises:
        ConfigurationError: naming both sides of the combination.
    """
    rule = RULES[name]
    reasons = {
        "secure aggregation": masked and not rule.linear and "it needs more than the sum of the updates",
        "differential privacy": private and not rule.private and "it is not a sum of one noised factor",
    }
    for side, reason in reasons.items():
        if reason:
            raise ConfigurationError(f"aggregation rule {name} cannot be combined with {side}", remedy=f"{reason}.")
    hidden = {
        f"compression {compression}": compression != "none",
        "a norm bound at the server": norm_bound is not None,
        "update-based drift detection": drift_detection,
    }
    for side, asked in hidden.items():
        if masked and asked:
            raise ConfigurationError(
                f"secure aggregation cannot be combined with {side}", remedy="It needs each site's own update."
            )
