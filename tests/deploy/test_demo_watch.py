import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from deploy.demo_view import LiveView, PlainView
from deploy.demo_watch import JsonLines, SiteProgress, SiteWatch, Snapshot, Watch, time_left
from server.report import Practice, read_run
from tests.server.report.small_run import write_run


def append(path: Path, *records: Mapping[str, object]) -> None:
    with path.open("a") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)


def step(number: int, reward: float, round: int = 1, steps: int = 4, seconds: float = 2.0) -> dict[str, object]:
    return {
        "round": round,
        "state": "training",
        "step": number,
        "steps": steps,
        "reward_mean": reward,
        "seconds": seconds,
    }


def test_only_whole_new_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    lines = JsonLines(path)
    assert list(lines.new()) == []
    path.write_text('{"a": 1}\nnot json\n[2]\n{"a"')
    assert list(lines.new()) == [{"a": 1}]
    with path.open("a") as stream:
        stream.write(": 2}\n")
    assert list(lines.new()) == [{"a": 2}]
    assert list(lines.new()) == []


def test_a_site_is_followed_through_its_rounds(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    watch = SiteWatch("ct", path)
    assert watch.update() == SiteProgress("ct")
    append(path, {"state": "building bank", "states": 10, "of": 126})
    assert (watch.update().state, watch.progress.detail) == ("building bank", "states 10 of 126")
    append(path, {"state": "ready"}, {"round": 1, "state": "training"}, step(1, 0.25), step(2, 0.75, seconds=4.0))
    now = watch.update()
    assert (now.round, now.step, now.steps, now.rewards, now.step_s) == (1, 2, 4, (0.25, 0.75), 3.0)
    append(path, {"round": 2, "state": "training"})
    assert (watch.update().round, watch.progress.step, watch.progress.rewards) == (2, 0, ())
    append(path, {**step(1, 0.7), "round": 2, "bank_wait_s": 0.03}, {**step(2, 0.9), "round": 2, "bank_wait_s": 0.01})
    assert watch.update().practice() == Practice("ct", (0.5, pytest.approx(0.8)), 0.03)


def test_time_left_follows_the_pace(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path))
    assert time_left(None, [], 0.0) is None
    begun = read_run(write_run(tmp_path / "other", scores=(0.3, 0.4)))
    fresh = type(begun)(**{**begun.__dict__, "rounds": (), "rounds_planned": 3})
    assert time_left(fresh, [SiteProgress("ct")], 10.0) is None
    site = SiteProgress("ct", round=1, step=1, steps=4, rewards=(0.1,), step_s=6.0)
    assert time_left(fresh, [site], 10.0) == pytest.approx((32 - 10) + 32 * 2.5)
    done = time_left(run, [site], 0.0)
    assert done is not None
    assert done < 1.0


def test_both_views_show_a_finished_run(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    progress = tmp_path / "progress.jsonl"
    append(progress, {"state": "ready"}, *(step(number, number / 10) for number in range(1, 5)))
    snapshot = Watch(run, {"north": progress}, started=0.0).snapshot("training")
    plain = Console(record=True, width=100, file=(tmp_path / "plain").open("w"))
    view = PlainView(plain)
    view.show(snapshot)
    once = plain.export_text(clear=False)
    view.show(snapshot)
    assert plain.export_text() == once
    for text in ("held-out overall of the cold start: 0.300", "round 2: held-out overall 0.350, held:", "reward 0.250"):
        assert text in once
    screen = Console(record=True, width=80, force_terminal=True, file=(tmp_path / "live").open("w"))
    live = LiveView(screen, "three hospitals")
    live.show(snapshot)
    live.close()
    shown = (tmp_path / "live").read_text()
    for text in ("three hospitals", "north", "promoted", "held: overall", "Differential privacy is OFF"):
        assert text in shown


def test_a_snapshot_before_the_run_is_empty(tmp_path: Path) -> None:
    snapshot = Watch(tmp_path, {"ct": tmp_path / "none"}, started=0.0).snapshot("starting")
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.run, snapshot.left_s, snapshot.sites) == (None, None, (SiteProgress("ct"),))
