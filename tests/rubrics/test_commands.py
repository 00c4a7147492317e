from __future__ import annotations

import pytest

from common.sandbox import Execution, Language
from rubrics.commands import ran, verbs


def receipt(code: str, language: Language = Language.BASH) -> Execution:
    return Execution(language, code, 0, False, 0.0, 0.0, 0, "", False, {}, {}, {})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("bat inspect", ("inspect",)),
        ("bat plan --method median --polarity keep --level 2", ("plan",)),
        ("bat plan --method=median --level=2", ("plan",)),
        ("bat pilot && bat verify", ("pilot", "verify")),
        ("bat pilot\nbat verify; cat process/verify.json | head -3", ("pilot", "verify")),
        ("bat setup --repair axes || bat setup --repair nan", ("setup", "setup")),
        ("echo bat inspect", ()),
        ("bat", ()),
    ],
)
def test_plain_commands(code: str, expected: tuple[str, ...]) -> None:
    assert verbs(receipt(code)) == expected


@pytest.mark.parametrize(
    "code",
    [
        "bat verify; echo {} > process/verify.json",
        "bat verify & bat verify",
        "# bat verify",
        "bat verify # yes",
        "bat() { true; }; bat verify",
        "PATH=. bat verify",
        "./bat verify",
        "cp a b; bat verify",
        "python3 -c 'x'; bat verify",
        "bat verify $(touch x)",
        "bat verify `touch x`",
        "alias bat=true; bat verify",
        "eval bat verify",
        "bat 'verify",
    ],
)
def test_anything_that_could_write_a_file_proves_nothing(code: str) -> None:
    assert not ran(receipt(code), "verify")


def test_python_proves_nothing() -> None:
    assert not ran(receipt("bat verify", Language.PYTHON), "verify")
