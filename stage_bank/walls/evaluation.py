"""The evaluation wall: nothing of the server's held-out suites gets into a bank, and no match gets out of the site."""

from __future__ import annotations

from collections.abc import Iterator

from stage_bank.picture import Picture
from stage_bank.state import TrainingState
from stage_bank.walls.breach import Breach
from stage_bank.walls.contents import read_array, read_text
from stage_bank.walls.fingerprints import FingerprintSet

__all__ = ["EvaluationWall"]


class EvaluationWall:
    """Compares pictures and states with the server's fingerprints.

    Args:
        prints: the verified set that the site pinned when it enrolled.
    """

    def __init__(self, prints: FingerprintSet) -> None:
        self._prints = prints

    def holds_out(self, picture: Picture) -> bool:
        """Whether an ingested picture is a held-out one, so that nothing may be fabricated on it."""
        return self._prints.matches_picture(picture.pixels)

    def breaches(self, state: TrainingState) -> list[Breach]:
        """All findings in one state; none when it may be admitted. What cannot be searched is a finding."""
        try:
            return list(self._search(state))
        except Exception as error:  # fail closed, whatever a strange state makes a parser do
            return [Breach("state", f"cannot be compared with the held-out suites: {type(error).__name__}")]

    def _search(self, state: TrainingState) -> Iterator[Breach]:
        for section, files in (("public file", state.files), ("hidden file", state.hidden)):
            for number, (path, data) in enumerate(files.items(), 1):
                array = read_array(path, data)
                if array is not None and self._prints.matches_picture(array):
                    yield Breach(f"{section} {number}", "picture of a held-out suite")
                elif array is None and self._prints.matches_text(read_text(path, data)):
                    yield Breach(f"{section} {number}", "text of a held-out suite")
        if self._prints.matches_text(state.prompt):
            yield Breach("prompt", "text of a held-out suite")
