"""Several sources of references as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stage_bank.dicom.walk import Found
from stage_bank.ingest.hooks import References, SeriesSource
from stage_bank.ingest.report import FileReport

__all__ = ["Together"]


class Together:
    """What any of the sources marks.

    Args:
        sources: asked in this order.
    """

    def __init__(self, sources: Sequence[References]) -> None:
        self._sources = tuple(sources)

    def offer(self, found: Found) -> None:
        """Show the file to every source."""
        for source in self._sources:
            source.offer(found)

    def findings_for(self, series: SeriesSource) -> Sequence[NDArray[np.bool_] | None]:
        """Masks of all sources joined; `None` where none covers the picture."""
        found: list[NDArray[np.bool_] | None] = [None] * len(series.pictures)
        for source in self._sources:
            masks = source.findings_for(series)
            found = [
                old if mask is None else mask if old is None else old | mask
                for old, mask in zip(found, masks, strict=True)
            ]
        return found

    def reports(self) -> Sequence[FileReport]:
        """Those of all sources."""
        return [report for source in self._sources for report in source.reports()]
