import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from common.errors import ConfigurationError
from common.stages import Stage
from server.cli import main as bat_server
from server.report import Practice, read_run, render, summary, write_practice, write_report, write_summary
from tests.server.report.small_run import SITES, write_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


class Page(HTMLParser):
    """Tags, what they refer to, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.references += [value or "" for name, value in attributes if name in ("src", "href", "action", "srcset")]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_sites_own_figures_stand_in_the_page_only_where_they_were_given(run: Path) -> None:
    before = write_report(run).read_text()
    assert "Practice" not in before
    assert summary(read_run(run), wall_s=1.0, peak_rss_mb=1.0)["bank_wait_s"] is None
    write_practice(run, [Practice("ct", (0.25, 0.5), 0.004), Practice("mr", (), 0.0)])
    words = " ".join(" ".join(Page(write_report(run).read_text()).words).split())
    assert "ct 0.250 → 0.500 0.004 s mr – 0.000 s" in words
    assert summary(read_run(run), wall_s=1.0, peak_rss_mb=1.0)["bank_wait_s"] == 0.004


def test_the_record_holds_what_the_loop_did(run: Path) -> None:
    record = read_run(run)
    assert (record.run, record.seed, record.sites, record.complete) == ("small", 7, SITES, True)
    assert record.start is not None
    assert record.start.overall == pytest.approx(0.3)
    verdicts = [one.gate.promoted for one in record.rounds if one.gate is not None]
    assert verdicts == [True, False, True]
    held = record.rounds[1].gate
    assert held is not None
    assert "overall_noninferiority" in held.failing
    assert record.standing is not None
    assert record.standing.overall == pytest.approx(0.5)
    assert [site.rounds_used for site in record.per_site] == [3, 3, 2]
    assert record.per_site[2].absent == {2: "no answer"}
    assert record.ledger_events > 10


def test_every_release_of_the_ledger_is_in_the_report(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    digests = {line["body"]["digest"] for line in lines if line["kind"] == "release_received"}
    assert len(digests) == 8
    page = write_report(run).read_text()
    assert all(digest in page for digest in digests)
    assert {release.digest for release in read_run(run).releases} == digests


def test_the_page_stands_alone(run: Path) -> None:
    text = write_report(run).read_text()
    page = Page(text)
    assert page.open == []
    assert page.references == []
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?:|url\(|@import", text)


def test_the_page_says_what_a_reader_must_know(run: Path) -> None:
    words = " ".join("".join(Page(write_report(run).read_text()).words).split())
    for text in (
        "Differential privacy was off",
        "nine patients",
        "not a privacy guarantee",
        "overall noninferiority",
    ):
        assert text in words
    assert "rose from 0.250 to 0.500 in 3 rounds, 2 promoted" in words
    assert words.count("● promoted") == 2
    assert words.count("◇ held") == 1


def test_the_curve_marks_promoted_and_held_and_names_the_targets(run: Path) -> None:
    page = write_report(run).read_text()
    wide = page[page.index("<svg") : page.index("</svg>")]
    assert wide.count('class="promoted"') == 2
    assert wide.count('class="held"') == 1
    assert wide.count('class="spur"') == 1
    targets = re.findall(r'class="pill-text"[^>]*>(S\d)<', wide)
    assert targets == [one.target.value for one in read_run(run).rounds]


def test_figures_that_the_ledger_does_not_bear_are_said_to_be_so(run: Path) -> None:
    (run / "sealed.json").unlink()  # written by the fixture, not by the server
    assert "does not agree with its signed record" not in write_report(run).read_text()
    metrics = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(metrics.replace('"overall": 0.5', '"overall": 0.8'))
    page = write_report(run).read_text()
    assert "does not agree with its signed record" in page
    assert "a line of the metrics was changed" in page


def test_a_hostile_name_stays_text(run: Path) -> None:
    versions = json.loads((run / "versions.json").read_text())
    (run / "versions.json").write_text(json.dumps({**versions, "<script>alert(1)</script>": "1"}))
    assert "<script" not in render(read_run(run))


def test_summary_has_the_agreed_keys(run: Path) -> None:
    path = write_summary(run, wall_s=12.34, peak_rss_mb=1000.04)
    value = json.loads(path.read_text())
    assert (value["cold_start_overall"], value["final_overall"]) == (0.25, 0.5)
    assert (value["oracle_overall"], value["fixed_script_overall"]) == (1.0, 0.45)
    assert (value["wall_s"], value["peak_rss_mb"], value["seed"]) == (12.3, 1000.0, 7)
    assert set(value["rounds"][0]) >= {"target_stage", "overall", "task", "stage_scores", "promoted", "wall_s"}
    assert value["rounds"][1]["stage_scores"] == dict.fromkeys(Stage, pytest.approx(0.35))
    assert all(set(release) == {"site", "round", "tensors", "bytes", "digest"} for release in value["releases"])
    assert value["versions"]["numpy"]


def moments(run: Path) -> Iterator[tuple[str, Path]]:
    """The run directory after each line of its ledger, with the metrics that stood then."""
    ledger = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    metrics = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "sealed.json").unlink()
    for count in range(len(ledger) + 1):
        rounds = sum('"kind": "prescription"' in line for line in ledger[:count])
        (run / "ledger.jsonl").write_text("".join(ledger[:count]))
        (run / "metrics.jsonl").write_text("".join(metrics[:rounds]))
        yield "".join(ledger[:count]), run


def test_it_can_be_read_and_drawn_at_every_moment(run: Path) -> None:
    for ledger, moment in moments(run):
        record = read_run(moment)
        assert len(record.releases) == ledger.count('"kind": "release_received"')
        Page(render(record))
        assert summary(record, wall_s=1.0, peak_rss_mb=1.0)["cold_start_overall"] is None


def test_a_run_that_failed_says_where(tmp_path: Path) -> None:
    everyone = [(2, site) for site in SITES]
    run = write_run(tmp_path, scores=(0.3, 0.4, 0.5), silent=everyone, sealed=False)
    record = read_run(run)
    assert record.rounds[1].candidate is None
    assert record.rounds[1].gate is None
    page = render(record)
    assert "Not reached" in page
    assert "no answer" in page


def test_damage_is_one_clear_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "metrics.jsonl").write_text('{"round": 0}\n{"round": 1}\n')
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_run(run)
    assert bat_server(["report", str(run)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("bat-server: ")


def test_the_command_writes_the_page(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bat_server(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_no_run_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bat_server(["report", str(tmp_path / "none")]) == 1
    assert "cannot read the settings" in capsys.readouterr().err


def _in_metrics(*path: str | int, value: object) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        place = lines[1]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    return change


def _pipe(run: Path) -> None:
    (run / "state.json").unlink()
    os.mkfifo(run / "state.json")


@pytest.mark.parametrize(
    "change",
    [
        _in_metrics("round", value=10**8),
        _in_metrics("round", value="1"),
        _in_metrics("overall", value="<b>"),
        _in_metrics("overall", value=math.inf),
        _in_metrics("overall", value=math.nan),
        _in_metrics("stages", "S1", value="<b>"),
        _in_metrics("releases", 0, "bytes", value="<b>"),
        _in_metrics("gate", "checks", value=[1]),
        _in_metrics("gate", "deltas", "overall_drop", value="<b>"),
        _in_metrics("wall_s", value="<b>"),
        lambda run: (run / "metrics.jsonl").write_text("[" * 100_000 + "\n"),
        lambda run: (run / "state.json").write_text("[" * 100_000),
        lambda run: (run / "sealed.json").write_text('{"cold_start":"x","final":1,"oracle":1,"fixed_script":1}'),
        lambda run: (run / "practice.json").write_text('{"north":{"rewards":["x"],"bank_wait_s":1}}'),
        _pipe,
    ],
)
def test_a_hostile_figure_is_one_clear_line(
    run: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object]
) -> None:
    change(run)
    assert bat_server(["report", str(run)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_lone_surrogate_does_not_stop_the_report(run: Path) -> None:
    (run / "state.json").write_text('{"step":"failed","reason":"\\ud800"}')
    assert bat_server(["report", str(run)]) == 0
