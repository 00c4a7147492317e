"""Task families, one file each: `TRACKS` holds every track that can be fabricated and scored."""

from collections.abc import Mapping

from common.stages import Track
from stage_bank.tracks import classification, detection, enhancement, report, segmentation, synthesis, vqa
from stage_bank.tracks._base import Fabricated, TrackSpec, UnfitPictures

__all__ = ["TRACKS", "Fabricated", "TrackSpec", "UnfitPictures"]

TRACKS: Mapping[Track, TrackSpec] = {
    spec.track: spec
    for spec in (
        segmentation.TRACK,
        enhancement.TRACK,
        classification.TRACK,
        synthesis.TRACK,
        detection.TRACK,
        vqa.TRACK,
        report.TRACK,
    )
}
"""Every track: a new one adds its line here."""
