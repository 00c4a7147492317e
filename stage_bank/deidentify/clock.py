"""Dates moved by one secret amount for each patient, so that intervals stay and calendar days do not.

A date and the time beside it are moved together as one instant. A time alone wraps at midnight, a date alone
moves as if at midnight, so that the two may differ by a day from the moved instant. Time zones are dropped.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from stage_bank.dicom.identity import Identity

__all__ = ["Clock", "patient_clock"]

_DAY = 86_400
_LEAST, _MOST = 365 * _DAY, 3650 * _DAY
_DATE = re.compile(r"(\d{4})\.?(\d{2})\.?(\d{2})")
_TIME = re.compile(r"(\d{2})(?::?(\d{2})(?::?(\d{2})(?:\.(\d{1,6}))?)?)?")
_ZONE = re.compile(r"[+-]\d{4}$")
_ANY_DAY = "20000101"


@dataclass(frozen=True)
class Clock:
    """Moves instants.

    Args:
        offset: what is added; `None` drops every date and time.
    """

    offset: timedelta | None

    def date(self, date: str, time: str = "") -> str | None:
        """A DICOM DA value moved, with the TM value that belongs to it; `None` when it is no date."""
        moved = self._move(date, time) or self._move(date, "00")
        return moved.strftime("%Y%m%d") if moved else None

    def time(self, time: str, date: str = "") -> str | None:
        """A DICOM TM value moved; without its date it wraps at midnight."""
        moved = self._move(date, time) or self._move(_ANY_DAY, time)
        return moved.strftime("%H%M%S.%f") if moved else None

    def instant(self, value: str) -> str | None:
        """A DICOM DT value moved; one without a day is dropped."""
        text = _ZONE.sub("", value.strip(" \0"))
        moved = self._move(text[:8], text[8:] or "00")
        return moved.strftime("%Y%m%d%H%M%S.%f") if moved else None

    def _move(self, date: str, time: str) -> datetime | None:
        day, clock = _DATE.fullmatch(date.strip(" \0")), _TIME.fullmatch(time.strip(" \0"))
        if self.offset is None or day is None or clock is None:
            return None
        year, month, date_of_month = (int(part) for part in day.groups())
        hour, minute, second = (int(part or 0) for part in clock.groups()[:3])
        microsecond = int((clock[4] or "").ljust(6, "0"))
        try:
            instant = datetime(year, month, date_of_month, hour, minute, second, microsecond)
            moved = instant + self.offset
        except (ValueError, OverflowError):
            return None
        return moved if moved.year >= 1000 else None


def patient_clock(site_key: bytes, identity: Identity) -> Clock:
    """The patient's clock: between one and ten years earlier, to the second, from HMAC-SHA-256 over issuer and ID."""
    message = b"\0".join([b"dates", identity.issuer.encode(), identity.patient_id.encode()])
    number = int.from_bytes(hmac.new(site_key, message, hashlib.sha256).digest()[:8], "big")
    return Clock(-timedelta(seconds=_LEAST + number % (_MOST - _LEAST)))
