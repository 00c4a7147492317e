"""Text in pixels: found with tesseract and the header's own words, and blanked."""

from stage_bank.deidentify.text.clean import TextCheck, clean_text, needs_search
from stage_bank.deidentify.text.tesseract import Tesseract, Word

__all__ = ["Tesseract", "TextCheck", "Word", "clean_text", "needs_search"]
