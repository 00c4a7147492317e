"""Write `docs/dependencies.md` from the metadata of the installed packages: `python -m tools.dependencies`."""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
from pathlib import Path

__all__ = ["licence", "main"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/dependencies.md"

HEAD = """# Dependencies

Written by `python -m tools.dependencies` from the metadata of the pinned packages; do not edit. Everything that these
packages need in turn is pinned in [constraints.txt](../constraints.txt). The project itself is under Apache-2.0.

| package | version | licence | for |
|---|---|---|---|
"""


def licence(name: str) -> str:
    """What a package says of its licence: its SPDX expression, its classifiers, or the first line of its field."""
    metadata = importlib.metadata.metadata(name).json
    if "license_expression" in metadata:
        return str(metadata["license_expression"])
    classifiers = [text.rsplit(" :: ", 1)[-1] for text in metadata.get("classifier", []) if "License ::" in text]
    named = [text for text in classifiers if "pproved" not in text]
    if named:
        return ", ".join(named)
    field = str(metadata.get("license", "")).strip()
    return field.splitlines()[0] if field else "see the package"


def main() -> int:
    """Write the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"running": project["dependencies"], **project["optional-dependencies"]}
    purposes = {"running": "running", "dev": "developing, testing and the demonstration"}
    rows = [
        f"| {name} | {importlib.metadata.version(name)} | {licence(name)} | {purposes.get(group, group)} |"
        for group, names in groups.items()
        for name in sorted(names)
    ]
    PAGE.write_text(HEAD + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
