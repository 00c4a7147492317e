from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_bank.deidentify.clock import Clock, patient_clock
from stage_bank.dicom.identity import Identity
from tests.stage_bank.dicom_files import KEY

INSTANTS = st.datetimes(datetime(1950, 1, 1), datetime(2090, 1, 1))


def clock_of(patient: str, key: bytes = KEY) -> Clock:
    return patient_clock(key, Identity("ISSUER", patient, "", "", "", ""))


def moved(clock: Clock, instant: datetime) -> datetime:
    date, time = instant.strftime("%Y%m%d"), instant.strftime("%H%M%S.%f")
    pair = (clock.date(date, time) or "") + (clock.time(time, date) or "")
    assert pair == clock.instant(date + time)
    return datetime.strptime(pair, "%Y%m%d%H%M%S.%f")


@given(INSTANTS, INSTANTS)
def test_intervals_of_a_patient_stay_to_the_microsecond(one, other):
    clock = clock_of("A-17")
    assert moved(clock, one) - moved(clock, other) == one - other


@given(st.text(max_size=20))
def test_the_offset_is_between_one_and_ten_years_and_not_whole_days(patient):
    offset = clock_of(patient).offset
    assert offset is not None
    assert timedelta(days=-3650) <= offset <= timedelta(days=-365)


def test_offsets_differ_between_patients_and_keys():
    offsets = {clock_of(f"P{number}").offset for number in range(200)}
    assert len(offsets) == 200
    assert sum(offset.seconds == 0 for offset in offsets if offset) < 5
    assert clock_of("A-17").offset != clock_of("A-17", b"another key of the site").offset


@pytest.mark.parametrize(
    ("written", "meaning"),
    [("20200229", "20200228"), ("2020.02.29", "20200228"), (" 20200229", "20200228")],
)
def test_dates_alone_move_by_whole_days(written, meaning):
    assert Clock(timedelta(days=-1)).date(written) == meaning


@pytest.mark.parametrize(
    ("written", "meaning"),
    [("10", "090000.000000"), ("1030", "093000.000000"), ("00:30:01.5", "233001.500000"), ("103000", "093000.000000")],
)
def test_times_alone_wrap_at_midnight(written, meaning):
    assert Clock(timedelta(hours=-1)).time(written) == meaning


def test_a_bad_time_does_not_cost_the_date_and_a_zone_is_dropped():
    clock = Clock(timedelta(days=-1))
    assert clock.date("20200229", "half past ten") == "20200228"
    assert clock.instant("20200229103000.000000+0100") == "20200228103000.000000"


@given(st.text(max_size=30))
def test_what_is_no_date_or_time_is_dropped(text):
    clock = Clock(timedelta(days=-400))
    for value in (clock.date(text), clock.time(text), clock.instant(text)):
        assert value is None or set(value) <= set("0123456789.")


def test_no_offset_means_no_dates():
    assert Clock(None).date("20200101", "10") is None
    assert Clock(None).time("10", "20200101") is None
    assert Clock(None).instant("20200101") is None
