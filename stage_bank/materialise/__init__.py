"""Rounds without differential privacy: which states, in which order; and the published rows of states and rounds."""

from stage_bank.materialise.rounds import BATCHES, POOL_ODDS, RoundRow, materialise

__all__ = ["BATCHES", "POOL_ODDS", "RoundRow", "materialise"]
