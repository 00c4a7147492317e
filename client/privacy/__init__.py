"""Differential privacy per patient: accounting, the budget of a bank, sampling, clipping and noise.

The guarantee and its assumptions stand in docs/privacy.md. Importing this package does not load torch; `mechanism` and
`noise` do.
"""

from client.privacy.accountant import NEIGHBOURS, Charge, cross_check, epsilon_spent
from client.privacy.budget import Budget
from client.privacy.calibration import calibrated_noise
from client.privacy.plan import PrivacyPlan, make_plan

__all__ = [
    "NEIGHBOURS",
    "Budget",
    "Charge",
    "PrivacyPlan",
    "calibrated_noise",
    "cross_check",
    "epsilon_spent",
    "make_plan",
]
