"""What agent code may see of the machine: interpreter, chosen packages, warm toolkit, and nothing else of ours."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import site
import stat
import sys
import sysconfig
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import SandboxError

__all__ = ["Runtime", "let_all_read", "make_runtime", "system_links"]

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True)
class Runtime:
    """The read-only things a worker needs.

    Args:
        folder: our own folder of this worker; holds `lib` (server and toolkit), `bin` and `etc`.
        base: installation prefix of the interpreter.
        packages: entry name within a package folder to where it really lies.
        covered: folders inside `base` or `/usr` that must not be seen (packages that were not chosen, our own code).
    """

    folder: Path
    base: Path
    packages: Mapping[str, Path]
    covered: tuple[Path, ...]

    @property
    def interpreter(self) -> str:
        """Path of the interpreter relative to `base`."""
        return f"bin/python{sys.version_info.major}.{sys.version_info.minor}"


def make_runtime(
    folder: Path, *, preload: Sequence[str], warm_paths: Sequence[Path], warm_commands: Mapping[str, str]
) -> Runtime:
    """Copy server and toolkit into `folder` and find the packages that `preload` needs.

    Raises:
        SandboxError: a preloaded package is not installed, or a warm path is missing.
    """
    library = folder / "lib"
    _copy_package(Path(__file__).parent / "inside", library / "inside")
    for path in warm_paths:
        _copy_warm(path, library)
    _write_programs(folder, warm_commands)
    base = Path(sys.base_prefix).resolve()
    return Runtime(folder, base, _packages(preload, {path.stem for path in library.iterdir()}), _covered(base))


def _copy_package(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True, dirs_exist_ok=True)


def let_all_read(folder: Path) -> None:
    """The worker is another user; what was copied may have been its owner's alone, and so may new files (umask)."""
    for inner, _, names in os.walk(folder):
        os.chmod(inner, 0o755)
        for name in names:
            path = os.path.join(inner, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.stat(path).st_mode & 0o100 else 0o644)


def _copy_warm(path: Path, library: Path) -> None:
    """Copy a toolkit under the import name it has outside, with empty parents (`a/b/c` as `a.b.c`)."""
    path = path.resolve()
    if not path.is_dir():
        raise SandboxError("warm path is not a folder", where=str(path), remedy="Give the toolkit's package folder.")
    if not (path / "__init__.py").exists():
        _copy_package(path, library)
        return
    parts = [path.name]
    for parent in path.parents:
        if not (parent / "__init__.py").exists():
            break
        parts.insert(0, parent.name)
    for depth in range(1, len(parts)):
        package = library.joinpath(*parts[:depth])
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
    _copy_package(path, library.joinpath(*parts))


def _write_programs(folder: Path, warm_commands: Mapping[str, str]) -> None:
    """Make each warm command a program for real shells, and give the sandbox's user a name."""
    programs, etc = folder / "bin", folder / "etc"
    programs.mkdir()
    etc.mkdir()
    for name, entry in warm_commands.items():
        module, _, function = entry.partition(":")
        program = programs / name
        program.write_text(
            f"#!/usr/bin/env python3\nimport sys\nfrom {module} import {function}\nsys.exit({function}(sys.argv[1:]))\n"
        )
        program.chmod(0o755)
    (etc / "passwd").write_text("agent:x:65534:65534:agent:/workspace:/bin/bash\n")
    (etc / "group").write_text("agent:x:65534:\n")


def _packages(preload: Sequence[str], copied: Collection[str]) -> dict[str, Path]:
    """Entries of the installed distributions that provide `preload`, with all they require.

    What was `copied` as toolkit is left out: the distribution it belongs to is our own and holds much more.
    """
    roots = {name.partition(".")[0] for name in preload} - sys.stdlib_module_names - set(copied)
    wanted = [name for name in roots if importlib.util.find_spec(name) is not None]
    owners = importlib.metadata.packages_distributions()
    waiting = [owner for name in wanted for owner in owners.get(name, [])]
    if missing := sorted(name for name in roots if name not in owners):
        raise SandboxError("a package to preload is not installed", where=missing[0], remedy="Install it with pip.")
    entries: dict[str, Path] = {}
    seen: set[str] = set()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        entries |= _entries(distribution)
        waiting += _requirements(distribution.requires or [])
    return entries


def _requirements(lines: Iterable[str]) -> list[str]:
    """Names of the requirements that are not extras; those that are not installed simply do not resolve."""
    names = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines if "extra ==" not in line]
    return [match.group() for match in names if match]


def _entries(distribution: importlib.metadata.Distribution) -> dict[str, Path]:
    tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}
    located = {top: Path(str(distribution.locate_file(top))).resolve() for top in tops if not top.endswith(".pth")}
    return {top: path for top, path in located.items() if path.exists()}


def _covered(base: Path) -> tuple[Path, ...]:
    """Package folders, and our own source, where they lie within trees that are shown as a whole."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = {Path(path) for path in (*site.getsitepackages(), sysconfig.get_path("purelib"))}
    candidates |= {base / "lib" / version / "site-packages", base / "lib" / version / "dist-packages"}
    candidates |= {Path("/usr/lib/python3/dist-packages"), Path("/usr/local/lib") / version, Path(__file__).parents[2]}
    shown = (base, Path("/usr"))
    found = {path.resolve() for path in candidates if path.is_dir()}
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    return tuple(
        sorted(
            path
            for path in found
            if any(tree in path.parents for tree in shown) and path not in standard.parents and path != standard
        )
    )


def system_links() -> dict[str, str | None]:
    """Top-level system folders: the target where it is a link (merged /usr), `None` where it is a folder."""
    found: dict[str, str | None] = {}
    for name in _SYSTEM:
        try:
            mode = os.lstat(f"/{name}").st_mode
        except OSError:
            continue
        found[f"/{name}"] = os.readlink(f"/{name}") if stat.S_ISLNK(mode) else None
    return found
