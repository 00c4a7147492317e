"""`bat-client doctor`: does everything hold that a site relies on, and what to do where it does not."""

from client.doctor.check import Check, Finding, State
from client.doctor.checks import CHECKS
from client.doctor.cli import add_doctor

__all__ = ["CHECKS", "Check", "Finding", "State", "add_doctor"]
