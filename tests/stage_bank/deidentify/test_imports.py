import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "module",
    ["stage_bank.deidentify", "stage_bank.deidentify.dataset", "stage_bank.ingest", "stage_bank.dicom.decode"],
)
def test_either_package_may_be_imported_first(module):
    """Both read files with the same parts, so each imports the other."""
    subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, check=True, timeout=60)
