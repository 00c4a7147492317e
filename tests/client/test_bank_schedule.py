"""What the builder makes next: evenly filled cells, whatever is under way and whatever fails."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given, settings
from hypothesis import strategies as st

from client.bank_schedule import ATTEMPTS, CELLS, Job, Schedule
from common.stages import Focus, Outcome, Track
from stage_bank.store import BankRow

TRACKS = (Track.CLASSIFICATION, Track.ENHANCEMENT, Track.SEGMENTATION)


def run(schedule: Schedule, jobs: int, under_way: int, fails: set[int]) -> tuple[list[Job], Counter[object]]:
    """Take and settle as the builder does; jobs whose number is in `fails` make nothing."""
    filled: Counter[object] = Counter()
    waiting: deque[Job] = deque()
    taken: list[Job] = []
    for _ in range(jobs):
        while len(waiting) < under_way and (job := schedule.take()) is not None:
            waiting.append(job)
            taken.append(job)
        if not waiting:
            break
        job = waiting.popleft()
        made = () if job.number in fails else job.cells
        filled.update((job.track, cell) for cell in made)
        schedule.settle(job, made, holds=bool(made))
    for job in waiting:
        filled.update((job.track, cell) for cell in job.cells)
        schedule.settle(job, job.cells, holds=True)
    return taken, filled


@settings(max_examples=60, deadline=None)
@given(
    tracks=st.sets(st.sampled_from(list(Track)), min_size=1),
    jobs=st.integers(1, 150),
    under_way=st.integers(1, 5),
    fails=st.sets(st.integers(0, 160), max_size=15),
)
def test_cells_fill_evenly_beside_failures(tracks: set[Track], jobs: int, under_way: int, fails: set[int]) -> None:
    _, filled = run(Schedule(sorted(tracks), (), 0), jobs, under_way, fails)
    for track in tracks:
        counts = [filled[track, cell] for cell in CELLS]
        assert max(counts) - min(counts) <= 1 + len(fails)
    if not fails:
        per_track = [sum(filled[track, cell] for cell in CELLS) for track in tracks]
        assert max(per_track) - min(per_track) <= 3
        for track in tracks:
            counts = [filled[track, cell] for cell in CELLS]
            assert max(counts) - min(counts) <= 1


@settings(max_examples=30, deadline=None)
@given(jobs=st.integers(1, 80), under_way=st.integers(1, 5), fails=st.sets(st.integers(0, 90), max_size=15))
def test_equal_answers_give_equal_jobs(jobs: int, under_way: int, fails: set[int]) -> None:
    first, second = (run(Schedule(TRACKS, (), 7), jobs, under_way, fails) for _ in range(2))
    assert first == second
    assert [job.number for job in first[0]] == list(range(7, 7 + len(first[0])))


def test_what_the_bank_holds_counts() -> None:
    held = [
        BankRow(f"{number:064x}", focus, track, outcome, "p")
        for number, (track, outcome, focus) in enumerate((t, o, f) for t in TRACKS for o in Outcome for f in Focus)
        if (track, outcome, focus) != (Track.ENHANCEMENT, Outcome.RECOVERY, Focus.S3)
    ]
    job = Schedule(TRACKS, held, 0).take()
    assert job is not None
    assert job.track is Track.ENHANCEMENT
    assert job.cells[0] == (Outcome.RECOVERY, Focus.S3)


def test_a_cell_that_came_back_empty_is_next_again() -> None:
    schedule = Schedule([Track.ENHANCEMENT], (), 0)
    first = schedule.take()
    assert first is not None
    other = schedule.take()
    assert other is not None
    assert not set(first.cells) & set(other.cells)
    schedule.settle(first, first.cells[:1], holds=True)
    again = schedule.take()
    assert again is not None
    assert set(first.cells[1:]) <= set(again.cells)


def test_a_track_that_the_images_do_not_carry_is_left_out_and_the_others_go_on() -> None:
    schedule = Schedule([Track.ENHANCEMENT, Track.SEGMENTATION], (), 0)
    tracks: Counter[Track] = Counter()
    for _ in range(3 * ATTEMPTS):
        job = schedule.take()
        assert job is not None
        tracks[job.track] += 1
        holds = job.track is Track.SEGMENTATION
        schedule.settle(job, job.cells if holds else (), holds=holds)
    assert tracks[Track.ENHANCEMENT] == ATTEMPTS
    alone = Schedule([Track.ENHANCEMENT], (), 0)
    for _ in range(ATTEMPTS):
        job = alone.take()
        assert job is not None
        alone.settle(job, (), holds=False)
    assert alone.take() is None
