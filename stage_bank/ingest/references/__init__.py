"""The site's own references: what is real in its images, as masks that follow their pictures."""

from stage_bank.ingest.references.dicom import DicomReferences
from stage_bank.ingest.references.labels import LabelReferences
from stage_bank.ingest.references.nifti import ingest_nifti
from stage_bank.ingest.references.polygons import polygon_mask
from stage_bank.ingest.references.site import ingest_site
from stage_bank.ingest.references.together import Together

__all__ = ["DicomReferences", "LabelReferences", "Together", "ingest_nifti", "ingest_site", "polygon_mask"]
