"""The shell around the code: make targets, CI entry, pinned versions, licence, documents."""

import importlib.metadata
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pairs}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> list[str]:
    extras = PROJECT["project"]["optional-dependencies"]
    return [*PROJECT["project"]["dependencies"], *(name for group in extras.values() for name in group)]


def test_every_direct_dependency_is_pinned_exactly() -> None:
    assert [name for name in declared() if canonical(name) not in pins()] == []
    assert pins()["torch"] == "2.13.0"


def test_the_installed_packages_are_the_pinned_ones() -> None:
    found = {name: importlib.metadata.version(name) for name in map(canonical, declared())}
    assert {name: version.partition("+")[0] for name, version in found.items()} == {
        name: pins()[name] for name in found
    }


@pytest.mark.parametrize("target", ["demo", "test", "test-full", "check", "bench", "prepare", "setup"])
def test_every_target_sets_itself_up(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    makefile = (ROOT / "Makefile").read_text()
    line = next(line for line in makefile.splitlines() if line.startswith(f"{target}:"))
    assert "setup" in line.split("##")[0] or ".stamp" in line


def test_ci_runs_check_and_test_and_stops_at_the_first_failure() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & stat.S_IXUSR
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert lines[-2:] == ["make check", "make test"]


def test_console_scripts_describe_themselves() -> None:
    for name in PROJECT["project"]["scripts"]:
        program = Path(sys.executable).parent / name
        done = subprocess.run([str(program), "--help"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, name
        assert done.stdout.startswith(f"usage: {name} "), name


def test_licence_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_links_of_the_documents_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_dependency_list_is_complete() -> None:
    page = (ROOT / "docs/dependencies.md").read_text()
    assert [name for name in declared() if f"| {name} |" not in page] == []
