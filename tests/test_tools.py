"""The programs behind `make bench` and `make test-full`."""

import json
from pathlib import Path

import pytest

from tools import bench, test_full
from tools.bench import Result, parse_result, table

FOUND = {"name": "x", "ours": 2.0, "peer": 4.0, "ratio": 0.5, "unit": "ms", "goal": 0.65, "holds": True}


def test_a_result_is_the_last_line() -> None:
    assert parse_result(f"warming up\n{json.dumps(FOUND)}\n\n") == Result(**FOUND)  # type: ignore[arg-type]


@pytest.mark.parametrize("output", ["", "done", "{}", json.dumps({**FOUND, "more": 1}), "[1]"])
def test_anything_else_is_no_result(output: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_result(output)


def benchmarks(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    (folder / "docs").mkdir()
    for name, source in programs.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.setattr(bench, "ROOT", folder)
    monkeypatch.setattr(bench, "BENCHMARKS", folder)
    monkeypatch.setattr(bench, "RESULTS", folder / "docs/benchmarks.json")
    monkeypatch.setattr(bench, "PAGE", folder / "docs/benchmarks.md")


def test_the_table_keeps_the_others_and_says_what_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    good = f"print({json.dumps(json.dumps(FOUND))})"
    bad = f"print({json.dumps(json.dumps({**FOUND, 'holds': False, 'peer': None, 'ratio': None}))})"
    benchmarks(tmp_path, monkeypatch, good=good, bad=bad, broken="raise SystemExit(3)")
    assert bench.main([]) == 1
    assert "not held: bad, broken" in capfd.readouterr().err
    assert bench.main(["good"]) == 0
    page = (tmp_path / "docs/benchmarks.md").read_text()
    assert "| `good` | 2 | 4 | 0.5 | ms | 0.65 | yes |" in page
    assert "| `bad` | 2 |  |  | ms | 0.65 | **no** |" in page
    assert bench.main(["nothing"]) == 2


def test_an_empty_table_has_no_row() -> None:
    assert table({}).rstrip().endswith("|---|---:|---:|---:|---|---|---|---|")


def test_full_runs_only_what_has_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("constraints.txt", "pyproject.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "tests/test_a.py").write_text("def test_a() -> None:\n    pass\n")
    outside = tmp_path / "allowed"
    (tmp_path / "tests/test_b.py").write_text(
        f"from pathlib import Path\n\n\ndef test_b() -> None:\n    assert Path({str(outside)!r}).exists()\n"
    )
    monkeypatch.setattr(test_full, "ROOT", tmp_path)
    monkeypatch.setattr(test_full, "DONE", tmp_path / "done")
    assert test_full.main() == 1
    assert "failed: tests/test_b.py" in capfd.readouterr().err
    outside.touch()
    assert test_full.main() == 0
    said = capfd.readouterr().out
    assert "tests/test_b.py" in said
    assert "tests/test_a.py" not in said
    (tmp_path / "tests/test_a.py").write_text("def test_a() -> None:\n    assert True\n")
    test_full.main()
    assert "tests/test_a.py" in capfd.readouterr().out
