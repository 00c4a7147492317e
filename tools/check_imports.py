"""The direction of imports: `common` ← `rubrics` ← `stage_bank` ← {`client`, `server`} ← `deploy`.

Read from the syntax tree of every module, so that an import inside a function or under `TYPE_CHECKING` counts too.
Within `stage_bank`, reading DICOM ← de-identification ← ingest. `stage_bank.skills` is shown inside the sandbox on its
own and may import nothing of ours but itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ALLOWED", "SEALED", "STEPS", "Violation", "find_violations", "main"]

ALLOWED: Mapping[str, frozenset[str]] = {
    "common": frozenset(),
    "rubrics": frozenset({"common"}),
    "stage_bank": frozenset({"common", "rubrics"}),
    "client": frozenset({"common", "rubrics", "stage_bank"}),
    "server": frozenset({"common", "rubrics", "stage_bank"}),
    "deploy": frozenset({"common", "rubrics", "stage_bank", "client", "server"}),
}
"""Package to the other packages of the project it may import."""

STEPS = ("stage_bank.dicom", "stage_bank.deidentify", "stage_bank.ingest")
"""Packages of which none imports a later one."""

SEALED = ("stage_bank.skills",)
"""Packages that import nothing of the project outside themselves."""


@dataclass(frozen=True)
class Violation:
    """One import against the direction.

    Args:
        path: the importing file, relative to the repository.
        line: its line, from 1.
        module: the importing module.
        imported: the module it must not import.
    """

    path: Path
    line: int
    module: str
    imported: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.module} must not import {self.imported}"


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything imported, relative imports resolved against `module`."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                anchor = ".".join(parents[: len(parents) - node.level + 1])
                base = f"{anchor}.{base}".strip(".")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _forbidden(module: str, imported: str) -> bool:
    top = imported.partition(".")[0]
    if top not in ALLOWED:
        return False
    if any(_within(module, sealed) and not _within(imported, sealed) for sealed in SEALED):
        return True
    later = [step for place, one in enumerate(STEPS) if _within(module, one) for step in STEPS[place + 1 :]]
    if any(_within(imported, step) for step in later):
        return True
    own = module.partition(".")[0]
    return top != own and top not in ALLOWED[own]


def find_violations(root: Path) -> list[Violation]:
    """Every import against the direction in the packages under `root`, in path and line order."""
    violations = []
    for package in sorted(ALLOWED):
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            module = _module_name(relative)
            tree = ast.parse(path.read_bytes(), filename=str(path))
            violations += [
                Violation(relative, line, module, imported)
                for line, imported in sorted(_imports(tree, module, path.name == "__init__.py"))
                if _forbidden(module, imported)
            ]
    return violations


def main() -> int:
    """Print the violations of the repository this file stands in; 1 when there are any."""
    violations = find_violations(Path(__file__).resolve().parents[1])
    for violation in violations:
        print(violation)
    print(f"import direction: {len(violations)} violation(s)" if violations else "import direction: ok")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
