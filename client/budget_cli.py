"""`bat-client budget`: what a run under differential privacy would be like, and what a bank has spent."""

from __future__ import annotations

import argparse

from client.site_command import Subparsers, add_site_command
from client.site_config import SiteConfig

__all__ = ["add_budget_commands"]


def add_budget_commands(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Register `plan` and `show`."""
    text = "plan a run under differential privacy, or show what the bank has spent"
    parser = subparsers.add_parser("budget", help=text, description=text)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    text = "sampling rate, noise and smallest useful number of patients of a run; needs no data"
    plan = commands.add_parser("plan", help=text, description=text)
    plan.add_argument("--epsilon", type=float, required=True, help="total of the run")
    plan.add_argument("--delta", type=float, required=True, help="at most a tenth of one over the patients")
    plan.add_argument("--patients", type=int, required=True, help="of the site, at least")
    plan.add_argument("--rounds", type=int, required=True)
    plan.add_argument("--steps", type=int, required=True, help="of a round")
    plan.add_argument("--batch", type=float, default=30.0, help="patients that a step draws on average, L (30)")
    plan.add_argument("--dimensions", type=int, required=True, help="trained parameters of a round, one factor")
    plan.add_argument("--wanted", type=float, default=1.0, help="largest useful noise-to-signal of a step (1)")
    plan.set_defaults(run=_plan)
    add_site_command(commands, "show", _show, "what the bank has spent, by both accountants")


def _plan(arguments: argparse.Namespace) -> int:
    from client.privacy.plan import make_plan

    plan = make_plan(
        patients=arguments.patients,
        batch=arguments.batch,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        rounds=arguments.rounds,
        steps=arguments.steps,
        dimensions=arguments.dimensions,
        wanted=arguments.wanted,
    )
    useful = "none with this batch" if plan.smallest_useful is None else str(plan.smallest_useful)
    print(f"sampling rate q         {plan.sampling_rate:.6g}")
    print(f"noise multiplier        {plan.noise_multiplier:.4f}")
    print(f"noise-to-signal a step  {plan.noise_to_signal:.3f}  (sigma sqrt(d) / L)")
    print(f"smallest useful number  {useful}  (patients, for at most {arguments.wanted:g})")
    print(f"epsilon of record       {plan.epsilon:.4f}  (PLD, at delta {arguments.delta:g})")
    print(f"epsilon, second opinion {plan.epsilon_prv:.4f}  (PRV, upper bound)")
    if plan.noise_to_signal > arguments.wanted:
        print("the noise of a step is louder than wanted: do not expect it to learn")
    return 0


def _show(config: SiteConfig, _arguments: argparse.Namespace) -> int:
    from client.privacy.accountant import NEIGHBOURS, cross_check
    from client.privacy.site_budget import open_budget

    with open_budget(config, config.open_vault()) as budget:
        recorded, second = cross_check(budget.charges, budget.delta)
        print(f"rounds charged          {len(budget.entries)}")
        print(f"epsilon of record       {recorded:.4f} of {budget.epsilon:g}  (PLD, at delta {budget.delta:g})")
        print(f"epsilon, second opinion {second:.4f}  (PRV, upper bound)")
        print(f"neighbours              {NEIGHBOURS}")
        print(f"head                    {budget.head}")
    return 0
