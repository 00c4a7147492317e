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
        "abbreviations", "about", "absent", "agents", "annulus", "answer", "arms", "axes", "axis",
        "background", "banding", "batch", "blocks", "blur", "bool", "boxes", "brightest", "calc",
        "calcification", "candidate", "candidates", "case", "cases", "cav", "cavity", "centre", "check",
        "chosen", "class", "classes", "classification", "clean", "cluster", "column", "columns", "compared",
        "compatible", "complete", "components", "condition", "content", "convert", "corrupt", "count", "cyst",
        "deconvolve", "deliver", "descr", "destripe", "detection", "disc", "does", "dots", "dotted", "dtype",
        "e2e", "eff", "effusion", "empty", "enhanced", "enhancement", "error",
        "estimatedradiographicmagnificationfactor", "excluded", "exemplar", "exemplars", "expand", "failed",
        "failure", "faint", "false", "fault", "file", "files", "fill", "finding", "findings", "finite",
        "flatten", "flip", "float", "float32", "float64", "for", "fortran", "frequency", "gaussian", "ghost",
        "good", "gradient", "grain", "have", "header", "how", "hyperdense", "hypodense", "image", "images",
        "impression", "impulse", "infer", "inference", "input", "inputs", "inspect", "interpolate", "invert",
        "inverted", "isodense", "json", "keep", "kind", "label", "labelmap", "labels", "labelscheme",
        "largestimagepixelvalue", "left", "lesion", "level", "lines", "load", "location", "lower",
        "magnification", "many", "marker", "markers", "mask", "median", "method", "middle", "missing",
        "model", "monochrome", "name", "nan", "negate", "negation", "nii", "nod", "nodule", "none", "normal",
        "npy", "null", "numpy", "one", "optionlabels", "options", "order", "outline", "output", "outputs",
        "part", "pass", "patientorientation", "photometricinterpretation", "pilot", "pipeline",
        "pixelspacing", "plan", "plus", "png", "polarity", "position", "predicted", "prediction", "present",
        "process", "question", "range", "raw", "ready", "recovery", "reference", "references", "repair",
        "report", "reportsections", "rescaleslope", "residual", "result", "reversed", "rhombus", "right",
        "ring", "row", "rows", "ruler", "runtime", "scale", "score", "second", "segmentation", "setup",
        "shading", "shape", "show", "side", "size", "smallestimagepixelvalue", "smooth", "solid", "sort",
        "spacing", "spare", "spiculation", "spline", "spot", "square", "stage", "status", "stripe",
        "submission", "submit", "success", "synthesis", "target", "task", "template", "text", "texture",
        "the", "threshold", "tilt", "tophat", "track", "true", "truth", "turn", "txt", "unfold", "unit",
        "units", "untouched", "upper", "value", "values", "verify", "view", "vqa", "what", "where", "which",
        "wide", "width", "without", "wrong", "zone",
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
