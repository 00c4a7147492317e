"""The budget of a bank: over budget is refused, a kill never loses a charge, an older state is recognised."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from client.cli import main
from client.privacy import Budget, Charge, epsilon_spent
from client.privacy.site_budget import open_budget
from client.site_config import load_site_config
from common.errors import LedgerError, PolicyRefusal
from stage_bank.store.vault import Vault
from tests.client.hospital import Hospital

IDENTITY = "b" * 64
ROUND = Charge(0.02, 1.0, 10)


def opened(folder: Path, epsilon: float = 3.0, identity: str = IDENTITY) -> Budget:
    return Budget(folder / "privacy" / "budget.jsonl", identity, epsilon=epsilon, delta=1e-5)


def test_a_round_is_charged_once_and_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as budget:
        assert budget.head == IDENTITY
        head = budget.charge("1" * 64, ROUND)
        assert budget.charge("1" * 64, ROUND) == head
        budget.charge("2" * 64, ROUND)
        assert budget.charged("1" * 64)
    with opened(tmp_path) as again:
        assert again.charges == [ROUND, ROUND]
        assert again.spent == epsilon_spent([Charge(0.02, 1.0, 20)], 1e-5)
        assert (tmp_path / "privacy" / "budget.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_round_over_budget_is_refused_and_not_charged(tmp_path: Path) -> None:
    with opened(tmp_path, epsilon=0.5) as budget:
        with pytest.raises(PolicyRefusal, match="the budget is 0") as refused:
            budget.charge("1" * 64, Charge(0.5, 0.7, 50))
        assert refused.value.code == "policy"
        assert budget.charges == []


def test_the_same_round_with_another_mechanism_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as budget:
        budget.charge("1" * 64, ROUND)
        with pytest.raises(LedgerError, match="another mechanism"):
            budget.check("1" * 64, Charge(0.02, 2.0, 10))


def test_two_processes_cannot_hold_it(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(LedgerError, match="another process"):
        opened(tmp_path)


def test_an_edit_or_another_bank_is_found_and_a_torn_line_is_not_a_charge(tmp_path: Path) -> None:
    file = tmp_path / "privacy" / "budget.jsonl"
    with opened(tmp_path) as budget:
        budget.charge("1" * 64, ROUND)
        budget.charge("2" * 64, ROUND)
    whole = file.read_bytes()
    for spoiled in (whole.replace(b'"steps":10', b'"steps":1', 1), whole[whole.index(b"\n") + 1 :], b"{}\n", b"[]\n"):
        file.write_bytes(spoiled)
        with pytest.raises(LedgerError):
            opened(tmp_path)
    file.write_bytes(whole)
    with pytest.raises(LedgerError, match="another bank"):
        opened(tmp_path, identity="c" * 64)
    for cut in range(len(whole) - whole[::-1].index(b"\n", 1), len(whole)):
        file.write_bytes(whole[:cut])
        with opened(tmp_path) as budget:
            assert len(budget.charges) == 1


def test_a_restored_older_budget_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "privacy" / "budget.jsonl"
    with opened(tmp_path) as budget:
        first = budget.charge("1" * 64, ROUND)
    yesterday = file.read_bytes()
    with opened(tmp_path) as budget:
        second = budget.charge("2" * 64, ROUND)
        assert [entry.digest for entry in budget.reconcile([first], first)] == [second]
        assert budget.reconcile([first, second], second) == []
        assert len(budget.reconcile([], IDENTITY)) == 2
    file.write_bytes(yesterday)
    with opened(tmp_path) as budget:
        for recorded, checkpoint in (([first, second], None), ([first], second)):
            with pytest.raises(LedgerError, match="older state was restored"):
                budget.reconcile(recorded, checkpoint)


CHARGER = """
import sys
from pathlib import Path
from client.privacy.budget import Budget
from client.privacy.accountant import Charge
budget = Budget(Path(sys.argv[1]), "b" * 64, epsilon=100.0, delta=1e-5)
budget.check = lambda *_: None  # the sum of thousands of rounds is not what is killed here
number = len(budget.entries)
print("open", flush=True)
while True:
    budget.charge(f"{number:064d}", Charge(0.02, 1.0, 10))
    number += 1
    print(number, flush=True)
"""


def test_killed_at_any_instant_no_acknowledged_charge_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "privacy" / "budget.jsonl"
    for attempt in range(4):
        process = subprocess.Popen([sys.executable, "-c", CHARGER, str(file)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        before = int(process.stdout.readline())
        time.sleep(0.02 + 0.03 * attempt)
        os.kill(process.pid, signal.SIGKILL)
        said = [int(line) for line in process.communicate()[0].split()]
        with opened(tmp_path, epsilon=100.0) as budget:
            assert len(budget.entries) >= max([before, *said])


def test_the_command_prints_a_plan_or_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["budget", "plan", "--epsilon", "8", "--patients", "2000", "--rounds", "2", "--steps", "10"]
    words += ["--dimensions", "5000"]
    assert main([*words, "--delta", "1e-5"]) == 0
    out = capsys.readouterr().out
    assert "sampling rate q         0.015" in out
    assert "PRV, upper bound" in out
    assert "do not expect it to learn" in out
    assert main([*words, "--delta", "1e-3"]) == 1
    assert capsys.readouterr().err == (
        "bat-client: delta 0.001 is too large for 2000 patients. Set it to at most 5.0e-05.\n"
    )


def test_the_command_shows_what_was_spent(hospital: Hospital, capsys: pytest.CaptureFixture[str]) -> None:
    config = hospital.write()
    Vault.load(config.bank_key_file, create=True)
    assert main(["budget", "show", str(hospital.file)]) == 1
    assert "this site has no privacy budget" in capsys.readouterr().err
    with hospital.file.open("a") as settings:
        settings.write("[privacy]\nepsilon = 3.0\ndelta = 1e-5\npatients = 2000\n")
    assert main(["budget", "show", str(hospital.file)]) == 0
    assert "epsilon of record       0.0000 of 3" in capsys.readouterr().out
    with open_budget(load_site_config(hospital.file), config.open_vault()) as budget:
        budget.charge("1" * 64, ROUND)
        spent = budget.spent
    assert main(["budget", "show", str(hospital.file)]) == 0
    out = capsys.readouterr().out
    assert "rounds charged          1" in out
    assert f"epsilon of record       {spent:.4f} of 3" in out


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("epsilon", "nan"),
        ("epsilon", "inf"),
        ("epsilon", "-1"),
        ("delta", "0"),
        ("patients", "1"),
        ("patients", "99999999999999"),
        ("batch", "nan"),
        ("steps", "0"),
        ("steps", "1000000000"),
        ("dimensions", "0"),
    ],
)
def test_an_odd_figure_of_a_plan_is_one_clear_line(word: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    sound = {"epsilon": "8", "delta": "1e-9", "patients": "2000", "rounds": "2", "steps": "10", "dimensions": "5000"}
    words = [f"--{name}={figure}" for name, figure in {**sound, word: value}.items()]
    assert main(["budget", "plan", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bat-client: ")
