"""Task families, one file each: `TRACKS` holds every track that can be fabricated and scored."""

from collections.abc import Mapping

from common.stages import Track
from stage_bank.tracks._base import BATCH, PILOT, SUBMITTED, Fabricated, TrackSpec, UnfitPictures
from stage_bank.tracks.classification import ClassificationTrack
from stage_bank.tracks.enhancement import EnhancementTrack
from stage_bank.tracks.segmentation import SegmentationTrack

__all__ = ["BATCH", "PILOT", "SUBMITTED", "TRACKS", "Fabricated", "TrackSpec", "UnfitPictures"]

TRACKS: Mapping[Track, TrackSpec] = {
    spec.track: spec for spec in (SegmentationTrack(), EnhancementTrack(), ClassificationTrack())
}
"""Every track that can be fabricated and scored."""
