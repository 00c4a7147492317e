"""The site's own references: what is real in its images, as masks that follow their pictures."""

from stage_bank.ingest.references.dicom import DicomReferences
from stage_bank.ingest.references.polygons import polygon_mask

__all__ = ["DicomReferences", "polygon_mask"]
