"""Typed errors of the project.

Every error a person can meet says *what* went wrong, *where*, and *what to do next*. The command-line tools print
exactly that as one line and exit non-zero; a traceback is reserved for our own defects.
"""

from __future__ import annotations

__all__ = [
    "AdapterError",
    "BankError",
    "BatError",
    "ConfigurationError",
    "DataError",
    "FederationError",
    "LedgerError",
    "PolicyRefusal",
    "SandboxError",
    "SigningError",
    "one_line",
]


def one_line(text: str) -> str:
    """The text with control characters and lone surrogates as escapes: a file's name may hold any of them."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class BatError(Exception):
    """Base of all errors meant for a person.

    Args:
        what: what is wrong, in one clause.
        where: the file, field, site or message concerned; empty when `what` already names it.
        remedy: what to do next, as an instruction; empty when nothing can be done by the reader.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        location = f" ({self.where})" if self.where else ""
        advice = f". {self.remedy}" if self.remedy else ""
        return one_line(f"{self.what}{location}{advice}")


class ConfigurationError(BatError):
    """A setting, path or argument cannot be used."""


class DataError(BatError):
    """An input file or folder is missing, empty, damaged or refused."""


class BankError(BatError):
    """A Stage Bank is missing, damaged, sealed for another key, or empty."""


class SandboxError(BatError):
    """The sandbox cannot give its guarantees here, or its worker died."""


class SigningError(BatError):
    """A key is missing or readable by others, or a signature does not verify."""


class LedgerError(BatError):
    """A ledger is broken: edited, truncated, reordered or signed by a foreign key."""


class AdapterError(BatError):
    """An adapter has a missing, extra, misshapen or non-finite tensor."""


class FederationError(BatError):
    """The exchange between server and sites failed."""


class PolicyRefusal(BatError):
    """A site refuses a request. `code` is the only part that may leave the site.

    Args:
        code: one of the constant refusal codes in `common.messages.RefusalCode`.
    """

    def __init__(self, code: str, what: str, *, where: str = "", remedy: str = "") -> None:
        self.code = code
        super().__init__(what, where=where, remedy=remedy)
