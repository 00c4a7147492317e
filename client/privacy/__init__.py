"""Differential privacy per patient: what rounds cost, how much noise they need, and what a bank may still spend.

Nothing here trains: a site refuses every prescription that asks for differential privacy.
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
