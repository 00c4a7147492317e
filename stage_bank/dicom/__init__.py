"""DICOM files as they are: found, read within bounds, decoded, and whose they are."""
