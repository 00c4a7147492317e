"""The sites of a demonstration: their image folders and their `site.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from client.site_config import SiteConfig, load_site_config
from common.errors import ConfigurationError, DataError
from common.signing import VerifyKey
from common.stages import Track
from deploy.sample_sites import make

__all__ = ["DemoSite", "find_site_folders", "set_up_sites"]


@dataclass(frozen=True)
class DemoSite:
    """One hospital of the demonstration.

    Args:
        name: site name.
        config_file: its `site.toml`.
        config: the same, read.
        files: how many files its image folder holds.
    """

    name: str
    config_file: Path
    config: SiteConfig
    files: int


def find_site_folders(root: Path) -> dict[str, Path]:
    """A person's own sites: every folder in `root` is one, named after it.

    Only what can be told at a glance is checked here; each site's ingest judges the files themselves.

    Raises:
        DataError: the folder is missing, holds no folder, or one of its folders holds no file at all.
    """
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(
            "cannot read the folder of sites", where=str(root), remedy="Give a folder that holds one folder a site."
        ) from error
    if len(folders) < 2:
        raise DataError(
            f"{len(folders) or 'no'} site folder{'' if len(folders) == 1 else 's'} in it, a federation needs two",
            where=str(root),
            remedy="Make one folder a site, with its DICOM files inside.",
        )
    for folder in folders:
        if next(_files(folder), None) is None:
            raise DataError("the site's folder is empty", where=str(folder), remedy="Put its DICOM files there.")
    return {folder.name: folder for folder in folders}


def set_up_sites(
    run: Path,
    own: Mapping[str, Path] | None,
    *,
    model: Path,
    server: VerifyKey,
    fingerprints: Path,
    sockets: Path,
    states: int,
    seed: int,
    tracks: Sequence[Track],
) -> list[DemoSite]:
    """Write each site's folder and settings below `run/sites`.

    Args:
        run: the run directory.
        own: site name to DICOM folder, or `None` for the sample images.
        model: folder of the base model.
        server: the key the sites believe.
        fingerprints: the server's fingerprints of the held-out suites.
        sockets: a short folder for the Unix sockets.
        states: size of each site's Stage Bank.
        seed: seed of the banks.
        tracks: task families that the sites practise.

    Raises:
        DataError: the sample images are not installed.
        ConfigurationError: a site's name cannot be used.
    """
    home = run.resolve() / "sites"
    folders = own if own is not None else make(home / "dicom")
    sites: list[DemoSite] = []
    for name, data in folders.items():
        settings = {
            "site": name,
            "data": str(data.resolve()),
            "state": str(home / name),
            "model": str(model.resolve()),
            "server": {"public_key": server.hex, "fingerprints": str(fingerprints.resolve())},
            "sockets": {"folder": str(sockets / str(len(sites)))},
            "bank": {"states": states, "seed": seed},
            "policy": {"tracks": [track.value for track in tracks]},
        }
        file = home / name / "site.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(tomli_w.dumps(settings), encoding="utf-8")
        try:
            config = load_site_config(file)
        except ConfigurationError as error:
            raise ConfigurationError("the folder's name cannot be a site's name", where=name) from error
        sites.append(DemoSite(name, file, config, sum(1 for _ in _files(data))))
    return sites


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
