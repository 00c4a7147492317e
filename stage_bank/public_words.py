"""The words of the states' own formats, which may stand in a state although some patient's file holds them too.

Without them a series called "liver" would be found in "deliver", and a description "Head" in every "header". Masking
whole words keeps the search strict everywhere else: a "liver" that stands by itself is still found.
"""

from __future__ import annotations

import re
from collections.abc import Container

__all__ = ["PUBLIC_WORDS", "mask_public"]

PUBLIC_WORDS = frozenset(
    {
        "agents", "annulus", "arms", "axes", "axis", "background", "banding", "batch", "blocks", "blur", "bool",
        "boxes", "calcification", "candidate", "candidates", "case", "cases", "cavity", "check", "chosen",
        "class", "classes", "classification", "clean", "cluster", "columns", "compared", "compatible",
        "complete", "condition", "content", "corrupt", "count", "deconvolve", "deliver", "descr", "destripe",
        "detection", "disc", "dots", "dotted", "dtype", "e2e", "empty", "enhanced", "enhancement", "error",
        "exemplar", "exemplars", "failed", "failure", "faint", "false", "fault", "file", "files", "fill",
        "finding", "finite", "flatten", "flip", "float", "float32", "float64", "for", "fortran", "frequency",
        "gaussian", "ghost", "good", "gradient", "grain", "header", "image", "images", "impulse", "infer",
        "inference", "input", "inputs", "inspect", "interpolate", "invert", "inverted", "json", "keep", "kind",
        "label", "labelmap", "labels", "labelscheme", "largestimagepixelvalue", "lesion", "level", "load",
        "mask", "median", "method", "missing", "monochrome", "nan", "nii", "nodule", "none", "normal", "npy",
        "null", "numpy", "order", "output", "outputs", "pass", "patientorientation",
        "photometricinterpretation", "pilot", "pipeline", "pixelspacing", "plan", "png", "polarity",
        "prediction", "process", "range", "ready", "recovery", "reference", "references", "repair", "report",
        "rescaleslope", "residual", "result", "ring", "rows", "scale", "score", "second", "segmentation",
        "setup", "shading", "shape", "smallestimagepixelvalue", "smooth", "solid", "spacing", "spare",
        "spiculation", "spline", "spot", "stage", "status", "stripe", "submission", "submit", "success",
        "synthesis", "target", "task", "text", "texture", "threshold", "tilt", "tophat", "track", "true",
        "truth", "turn", "unfold", "untouched", "value", "values", "verify", "view", "vqa", "wrong",
    }
)  # fmt: skip
"""Lower case. Every word of a state's public and hidden texts must be here; a test fabricates states and says which is
missing. Never add one that could be a name: a state of a new format is better rejected than a patient let through."""

_TOKEN = re.compile(rb"[A-Za-z0-9]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def mask_public(data: bytes, identifiers: Container[str]) -> bytes:
    """Blank out public words (with a running number, as in `case12`) and SHA-256 digests that are no identifiers.

    Args:
        data: text.
        identifiers: lower-case strings; a digest that is one of them is kept.

    Returns:
        Text of the same length.
    """

    def blank(match: re.Match[bytes]) -> bytes:
        word = match.group().decode("ascii").lower()
        public = word in PUBLIC_WORDS or re.sub(r"[0-9]{1,3}$", "", word) in PUBLIC_WORDS
        digest = _DIGEST.fullmatch(word) is not None and word not in identifiers
        return b" " * len(word) if public or digest else match.group()

    return _TOKEN.sub(blank, data)
