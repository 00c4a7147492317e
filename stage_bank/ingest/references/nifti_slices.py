"""Slices of a NIfTI volume as DICOM images in memory, so that they pass the same walls as every other image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import (
    CTImageStorage,
    DigitalXRayImageStorageForPresentation,
    ExplicitVRLittleEndian,
    MRImageStorage,
    PositronEmissionTomographyImageStorage,
    SecondaryCaptureImageStorage,
    UltrasoundImageStorage,
    generate_uid,
)

from stage_bank.deidentify.dataset import Options, deidentify
from stage_bank.deidentify.faces import FacePlane, face_plane
from stage_bank.deidentify.heads import Shown, Slice, shown
from stage_bank.dicom.read import Refused
from stage_bank.dicom.reasons import Reason
from stage_bank.ingest.references.nifti_volume import Volume
from stage_bank.ingest.render import MIN_SIDE, render

__all__ = ["NiftiSlices"]

_CLASSES = {
    "CT": CTImageStorage,
    "DX": DigitalXRayImageStorageForPresentation,
    "MR": MRImageStorage,
    "PT": PositronEmissionTomographyImageStorage,
    "US": UltrasoundImageStorage,
}
_TOMOGRAPHIC = ("CT", "MR", "PT")
_CLIP = (0.1, 99.9)
"""Percentiles; rendering looks at less, and a few wild voxels would take all of the 16 bits."""


class NiftiSlices:
    """The pictures of one volume.

    Args:
        volume: as read.
        modality: DICOM defined term.
        body_part: DICOM defined term; empty where the site does not say. Then a head is looked for.

    Raises:
        Refused: too small, or a head whose face cannot be found.
    """

    def __init__(self, volume: Volume, modality: str, body_part: str) -> None:
        self._volume = volume
        self._modality = modality
        self._body_part = body_part
        self.count = volume.stored.shape[volume.axis]
        first = volume.place(0)
        if min(first.rows, first.columns) < MIN_SIDE:
            raise Refused(Reason.TOO_SMALL)
        self._face = self._find_face()

    def picture(self, index: int, site_key: bytes, patient: str) -> NDArray[np.float32]:
        """One slice, de-identified and rendered, `[rows, columns]`.

        Raises:
            Refused: without contrast, or what de-identification objects to.
        """
        place = self._volume.place(index)
        mask = None if self._face is None else self._face.mask(place)
        clean = deidentify(self._dataset(index, patient), site_key, options=Options(face_mask=mask))
        return render(clean)[0]

    def _find_face(self) -> FacePlane | None:
        header = self._header()
        if self._modality not in _TOMOGRAPHIC:
            header.Modality = "MR"  # nobody knows that it is no head
        if shown([header]) is Shown.OTHER:
            return None
        header.RescaleSlope, header.RescaleIntercept = self._volume.slope, self._volume.intercept
        return face_plane(self._slices(), header)

    def _slices(self) -> Iterator[tuple[Slice | None, NDArray[np.generic]]]:
        for index in range(self.count):
            yield self._volume.place(index), self._volume.slice(index)

    def _header(self) -> Dataset:
        header = Dataset()
        header.Modality, header.BodyPartExamined = self._modality, self._body_part
        return header

    def _dataset(self, index: int, patient: str) -> FileDataset:
        values = self._volume.values(index)
        known = values[np.isfinite(values)]
        if known.size == 0:
            raise Refused(Reason.FLAT)
        low, high = (float(value) for value in np.percentile(known, _CLIP))
        if not high > low:
            low, high = float(known.min()), float(known.max())
        if not high > low:
            raise Refused(Reason.FLAT)
        scaled = np.clip((np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / (high - low), 0.0, 1.0)
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = _CLASSES.get(self._modality, SecondaryCaptureImageStorage)
        meta.MediaStorageSOPInstanceUID = generate_uid()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        dataset = FileDataset("", self._header(), preamble=b"\0" * 128, file_meta=meta)
        dataset.SOPClassUID, dataset.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        dataset.PatientID = patient
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
        dataset.Rows, dataset.Columns = values.shape
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 16, 16, 15, 0
        dataset.add_new("PixelData", "OW", np.round(scaled * 65535).astype("<u2").tobytes())
        return dataset
