"""Scoring of any agent's run directory in AutoMedBench's public layout, from files and logs alone."""

from server.automedbench.scoring import TASKS, Tier, score_run

__all__ = ["TASKS", "Tier", "score_run"]
