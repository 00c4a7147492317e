"""Run the benchmarks and write their table: `python -m tools.bench [NAME]`.

A benchmark is a program `tests/benchmarks/NAME.py` whose last line of output is one JSON object with the keys of
`Result`. The last results of all are kept in `docs/benchmarks.json`; `docs/benchmarks.md` is made from that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path

__all__ = ["Result", "main", "parse_result", "table"]

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "tests/benchmarks"
RESULTS = ROOT / "docs/benchmarks.json"
PAGE = ROOT / "docs/benchmarks.md"

HEAD = """# Benchmarks

Written by `make bench`; do not edit. `make bench NAME=x` runs one of them and refreshes its row. A ratio is ours over
peer; `holds` says whether the goal was met in that run, on the machine that ran it.

| benchmark | ours | peer | ratio | unit | goal | holds | measured |
|---|---:|---:|---:|---|---|---|---|
"""


@dataclass(frozen=True)
class Result:
    """What a benchmark found.

    Args:
        name: the benchmark.
        ours: our figure.
        peer: the figure it is compared with, or `None`.
        ratio: ours over peer, or `None`.
        unit: of both figures.
        goal: what must hold: a bound of the ratio, or words.
        holds: whether it does.
    """

    name: str
    ours: float
    peer: float | None
    ratio: float | None
    unit: str
    goal: float | str
    holds: bool


def parse_result(output: str) -> Result:
    """Read a benchmark's result from the last line of its output.

    Raises:
        ValueError: there is none, or its keys are others.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    value = json.loads(lines[-1]) if lines else None
    wanted = {field.name for field in fields(Result)}
    if not isinstance(value, dict) or set(value) != wanted:
        raise ValueError(f"the last line must be a JSON object with exactly the keys {', '.join(sorted(wanted))}")
    return Result(**value)


def table(results: dict[str, tuple[Result, str]]) -> str:
    """The page with one row a benchmark.

    Args:
        results: name to result and the day it was measured.
    """
    rows = [
        f"| `{name}` | {_figure(one.ours)} | {_figure(one.peer)} | {_figure(one.ratio)} | {one.unit} | {one.goal} "
        f"| {'yes' if one.holds else '**no**'} | {day} |"
        for name, (one, day) in sorted(results.items())
    ]
    return HEAD + "\n".join(rows) + "\n"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _run(program: Path) -> Result:
    print(f"== {program.stem}", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # benchmarks may use the tests' helpers
    command = [sys.executable, str(program)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    output = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        output.append(line)
    if process.wait() != 0:
        raise ValueError(f"it ended with status {process.returncode}")
    return parse_result("".join(output))


def _load() -> dict[str, tuple[Result, str]]:
    if not RESULTS.exists():
        return {}
    return {name: (Result(**entry["result"]), entry["day"]) for name, entry in json.loads(RESULTS.read_text()).items()}


def _store(results: dict[str, tuple[Result, str]]) -> None:
    entries = {name: {"result": asdict(one), "day": day} for name, (one, day) in sorted(results.items())}
    RESULTS.write_text(json.dumps(entries, indent=1) + "\n")
    PAGE.write_text(table(results))


def main(argv: list[str]) -> int:
    """Run all benchmarks, or the one named; 1 when one fails, gives no result, or does not reach its goal."""
    programs = sorted(path for path in BENCHMARKS.glob("*.py") if not path.name.startswith("_"))
    chosen = [path for path in programs if not argv or path.stem == argv[0]]
    if not chosen:
        names = ", ".join(path.stem for path in programs)
        print(f"bench: no benchmark of that name; there are {names}", file=sys.stderr)
        return 2
    today: date = datetime.now(UTC).date()
    present = {path.stem for path in programs}
    results = {name: entry for name, entry in _load().items() if name in present}
    failed = []
    for program in chosen:
        try:
            result = _run(program)
        except ValueError as error:
            print(f"bench: {program.stem}: {error}", file=sys.stderr)
            failed.append(program.stem)
            continue
        results[program.stem] = (result, today.isoformat())
        _store(results)
        if not result.holds:
            failed.append(program.stem)
    if failed:
        print(f"bench: not held: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument]))
