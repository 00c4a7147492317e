"""Settings in TOML, checked against a typed model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from common.errors import ConfigurationError

__all__ = ["read_settings"]

_Settings = TypeVar("_Settings", bound=BaseModel)


def read_settings(path: Path, model: type[_Settings], changes: Mapping[str, object] | None = None) -> _Settings:
    """Read a settings file.

    Args:
        path: the file.
        model: what it must be.
        changes: settings of the command line, which win over the file's.

    Raises:
        ConfigurationError: the file is missing, not TOML, or a setting is unknown or out of range.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError("cannot read the settings", where=str(path), remedy=f"{error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError("the settings are not TOML", where=f"{path}: {error}") from error
    try:
        return model.model_validate(raw | dict(changes or {}))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        what = f"setting {field}: {first['msg']}" if field else str(first["msg"])
        raise ConfigurationError(what, where=str(path)) from error
