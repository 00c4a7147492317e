"""Task families, one file each: `TRACKS` holds every track that can be fabricated and scored."""

from stage_bank.tracks._base import BATCH, PILOT, SUBMITTED, Fabricated, Image, TrackSpec

__all__ = ["BATCH", "PILOT", "SUBMITTED", "Fabricated", "Image", "TrackSpec"]
