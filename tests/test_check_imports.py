from pathlib import Path

import pytest

from tools.check_imports import ALLOWED, find_violations

ROOT = Path(__file__).resolve().parents[1]


def plant(root: Path, path: str, source: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)


def test_the_repository_keeps_the_direction() -> None:
    assert find_violations(ROOT) == []


@pytest.mark.parametrize(
    ("path", "source", "imported"),
    [
        ("common/a.py", "import rubrics.metrics\n", "rubrics.metrics"),
        ("client/a.py", "from server.gate import decide\n", "server.gate.decide"),
        ("server/a.py", "def f():\n    from client import daemon\n", "client.daemon"),
        ("stage_bank/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import server\n", "server"),
        ("rubrics/metrics/a.py", "from ...client import relay\n", "client.relay"),
        ("stage_bank/dicom/a.py", "from stage_bank.ingest import report\n", "stage_bank.ingest.report"),
        ("stage_bank/deidentify/a.py", "from stage_bank.ingest import report\n", "stage_bank.ingest.report"),
        ("stage_bank/skills/a.py", "from ..state import TrainingState\n", "stage_bank.state.TrainingState"),
        ("stage_bank/skills/__init__.py", "from stage_bank import bank\n", "stage_bank.bank"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, path: str, source: str, imported: str) -> None:
    plant(tmp_path, path, source)
    found = find_violations(tmp_path)
    assert [(str(one.path), one.imported) for one in found] == [(path, imported)]
    assert str(found[0]).startswith(f"{path}:{found[0].line}: ")


def test_imports_along_the_direction_are_free(tmp_path: Path) -> None:
    for package, others in ALLOWED.items():
        lines = [f"import {other}\n" for other in sorted(others)] + [f"from {package} import other\n", "import json\n"]
        plant(tmp_path, f"{package}/a.py", "".join(lines))
    plant(tmp_path, "stage_bank/skills/a.py", "from . import b\nfrom .b import c\nimport numpy\n")
    assert find_violations(tmp_path) == []
