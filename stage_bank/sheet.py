"""A state as one picture: what the agent is told and given, and the reference that only the verifier sees."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from stage_bank.sheet_lines import sheet_lines
from stage_bank.skills.mask_form import decode_mask
from stage_bank.state import TrainingState

__all__ = ["draw_sheet"]

_SCALE = 4
_TILE = (64 * _SCALE, 64 * _SCALE)
_GAP, _LINE = 24, 22
_PAPER, _INK, _FAINT, _LESION = (255, 255, 255), (24, 26, 32), (110, 116, 128), (232, 93, 42)


def draw_sheet(state: TrainingState) -> Image.Image:
    """Draw prompt and condition, and for every case the stored input beside its reference.

    Args:
        state: any track; files that are neither image, map nor text are left out.
    """
    cases = sorted({path.split("/")[1] for path in state.files if path.startswith("cases/")})
    tiles = [_case_tiles(state, case) for case in cases]
    columns = max(map(len, tiles), default=1)
    width = _GAP + max(columns, 3) * (_TILE[0] + _GAP)
    head = [
        f"{state.track} · {state.focus} · {state.outcome}",
        f'prompt   "{state.prompt}"',
        "hidden   " + ", ".join(f"{name} {value}" for name, value in state.condition.items()),
        f"state    {state.state_id[:32]}…",
    ]
    top = _GAP + len(head) * _LINE + _GAP
    sheet = Image.new("RGB", (width, top + len(tiles) * (_TILE[1] + _LINE + _GAP)), _PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(head):
        pen.text((_GAP, _GAP + number * _LINE), line, fill=_INK, font=_font(20 if number == 0 else 15))
    for row, (case, parts) in enumerate(zip(cases, tiles, strict=True)):
        for column, (title, tile) in enumerate(parts):
            corner = (_GAP + column * (_TILE[0] + _GAP), top + row * (_TILE[1] + _LINE + _GAP))
            pen.text(corner, f"{case} · {title}", fill=_FAINT, font=_font(13))
            sheet.paste(tile, (corner[0], corner[1] + _LINE))
    return sheet


def _case_tiles(state: TrainingState, case: str) -> list[tuple[str, Image.Image]]:
    """Titles and pictures of a case: input, public texts, references."""
    public = {p.removeprefix(f"cases/{case}/"): d for p, d in state.files.items() if p.startswith(f"cases/{case}/")}
    references = {p.removeprefix("references/"): d for p, d in state.hidden.items() if p.startswith("references/")}
    stored = _array(public.get("image.npy"))
    tiles = [("input", _picture(stored) if stored is not None else _words(["no readable image"]))]
    texts = {name: data for name, data in public.items() if not name.endswith(".npy")}
    tiles.append(("public", _words(sheet_lines(texts, case))))
    own = {name.removeprefix(f"{case}/"): data for name, data in references.items() if name.startswith(f"{case}/")}
    for name, data in sorted(own.items()):
        if name.endswith(".npy") and (image := _array(data)) is not None:
            tiles.append((f"reference {name}", _picture(image)))
        elif name.endswith(".nii.gz"):
            tiles.append((f"reference {name}", _overlay(stored, decode_mask(data))))
    words = {name: data for name, data in own.items() if name.endswith((".json", ".txt"))}
    words |= {name: data for name, data in references.items() if "/" not in name}
    if words:
        tiles.append(("reference", _words(sheet_lines(words, case))))
    return tiles


def _array(data: bytes | None) -> NDArray[np.float64] | None:
    try:
        array = np.load(io.BytesIO(data or b""), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return np.asarray(array, dtype=np.float64) if array.ndim == 2 else None


def _grey(array: NDArray[np.float64]) -> Image.Image:
    finite = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite.min()), float(finite.max())
    scaled = (finite - low) / (high - low) if high > low else np.zeros_like(finite)
    return Image.fromarray((scaled * 255).astype(np.uint8)).convert("RGB")


def _picture(array: NDArray[np.float64]) -> Image.Image:
    return _on_tile(_grey(array))


def _overlay(stored: NDArray[np.float64] | None, mask: NDArray[np.bool_]) -> Image.Image:
    fits = stored is not None and stored.shape == mask.shape
    ground = _grey(stored if fits and stored is not None else np.zeros(mask.shape))
    colour = Image.new("RGB", ground.size, _LESION)
    return _on_tile(Image.composite(Image.blend(ground, colour, 0.6), ground, Image.fromarray(mask).convert("L")))


def _on_tile(picture: Image.Image) -> Image.Image:
    tile = Image.new("RGB", _TILE, (238, 240, 243))
    factor = min(_TILE[0] / picture.width, _TILE[1] / picture.height)
    size = (int(picture.width * factor), int(picture.height * factor))
    enlarged = picture.resize(size, Image.Resampling.NEAREST)
    tile.paste(enlarged, ((_TILE[0] - size[0]) // 2, (_TILE[1] - size[1]) // 2))
    return tile


def _words(lines: Sequence[str]) -> Image.Image:
    tile = Image.new("RGB", _TILE, (247, 248, 250))
    ImageDraw.Draw(tile).multiline_text((8, 6), "\n".join(lines), fill=_INK, font=_font(9), spacing=3)
    return tile


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
