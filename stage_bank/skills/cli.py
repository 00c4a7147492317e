"""`bat`: the stage skills as commands. Run `bat help` for the usage; exit status 0 done, 1 not done, 2 misused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import commands
from ._words import DELIVERIES, LEVELS, POLARITY_CHOICE, SkillError
from .toolbox import SKILLS
from .workspace import Workspace, open_workspace

__all__ = ["main"]


@dataclass(frozen=True)
class Verb:
    """One command.

    Args:
        run: what it does; returns the line to print.
        required: options that must be given.
        optional: options that may be given.
        purpose: one line for the help.
    """

    run: Callable[..., str]
    purpose: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


VERBS: Mapping[str, Verb] = {
    "inspect": Verb(commands.inspect, "measure the cases"),
    "plan": Verb(commands.plan, "write the plan", ("method", "polarity", "level"), ("candidates",)),
    "check": Verb(commands.check, "check that plan and data fit"),
    "setup": Verb(commands.setup, "load the cases with a repair", ("repair",)),
    "pilot": Verb(commands.pilot, "run one case and look at it"),
    "verify": Verb(commands.verify, "inspect the outputs"),
    "infer": Verb(commands.infer, "run all cases"),
    "submit": Verb(commands.submit, "deliver the outputs", ("deliver",)),
}

VALUES: Mapping[str, tuple[str, ...]] = {
    "polarity": tuple(POLARITY_CHOICE.values()),
    "level": LEVELS,
    "deliver": DELIVERIES,
    "candidates": ("1", "2", "3", "4"),
}
"""Option to its valid values; those of `method` and `repair` depend on the track."""


def main(argv: list[str]) -> int:
    """Run one command in the current directory.

    Args:
        argv: verb and options, without the program's name.

    Returns:
        Exit status: 0 done, 1 the work failed, 2 the command was misused.
    """
    try:
        if not argv or argv[0] in ("help", "--help", "-h"):
            print(usage())
            return 0
        verb = VERBS.get(argv[0])
        if verb is None:
            raise SkillError(f"unknown command {argv[0][:20]}", status=2)
        options = _options(argv[1:], verb)
        workspace = open_workspace(Path.cwd())
        _check_values(options, workspace)
        arguments = {name: int(value) if name == "candidates" else value for name, value in options.items()}
        print(verb.run(workspace, **arguments))
    except SkillError as error:
        print(error.line, file=sys.stderr)
        return error.status
    except OSError as error:
        print(f"cannot read or write {error.filename or ''}".strip(), file=sys.stderr)
        return 1
    return 0


def usage() -> str:
    """The usage of every verb, with the valid values of its options on every track."""
    lines = []
    for name, verb in VERBS.items():
        needed = [f"--{option} {_shown(option)}" for option in verb.required]
        free = [f"[--{option} {_shown(option)}]" for option in verb.optional]
        lines.append(" ".join(["bat", name, *needed, *free]) + f" : {verb.purpose}")
    for track, skill in SKILLS.items():
        lines.append(f"{track}: METHOD is {'|'.join(skill.methods.values())}, REPAIR is {'|'.join(skill.faults)}")
    return "\n".join(lines)


def _shown(option: str) -> str:
    return "|".join(VALUES[option]) if option in VALUES else option.upper()


def _options(words: Sequence[str], verb: Verb) -> dict[str, str]:
    """Read `--name value` and `--name=value`."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, joined, value = rest.pop(0).partition("=")
        option = name.removeprefix("--")
        if option == name or option not in verb.required + verb.optional or option in options:
            raise SkillError(f"unknown option {name[:20]}", status=2)
        if not joined:
            if not rest:
                raise SkillError(f"need a value for {name}", status=2)
            value = rest.pop(0)
        options[option] = value
    for option in verb.required:
        if option not in options:
            raise SkillError(f"need --{option}", status=2)
    return options


def _check_values(options: Mapping[str, str], workspace: Workspace) -> None:
    skill = workspace.skill
    values = {**VALUES, "method": tuple(skill.methods.values()), "repair": skill.faults}
    for option, value in options.items():
        valid = values[option]
        if value not in valid:
            raise SkillError(f"{option} is one of {' '.join(valid)}", status=2)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
