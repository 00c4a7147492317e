"""Settings, credentials and the lines that say what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from requests import Request

from common.errors import ConfigurationError
from stage_bank.ingest.dicomweb import Server, load_settings
from stage_bank.ingest.dicomweb.credentials import credentials
from stage_bank.ingest.dicomweb.settings import ServerSettings

URL = "https://pacs.example.org/dicom-web"


def load(folder: Path, text: str):
    (folder / "ingest.toml").write_text(text)
    return load_settings(folder / "ingest.toml")


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    text = f'staging = "s"\n[server]\nurl = "{URL}/"\nca_file = "ca.pem"\ncredentials_file = "/abs"\n'
    found = load(tmp_path, text + '[select]\npatients = "p.txt"\nsince = 2025-01-31\n')
    assert found.staging == tmp_path / "s"
    assert found.server.url == URL
    assert found.server.ca_file == tmp_path / "ca.pem"
    assert found.server.credentials_file == Path("/abs")
    assert found.select.patients == tmp_path / "p.txt"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("=", "not TOML"),
        ('staging = "s"', "Field required"),
        ('staging = "s"\n[server]\nurl = "ftp://x"', "not an http or https address"),
        ('staging = "s"\n[server]\nurl = "https://u:p@x/"', "credentials do not belong"),
        ('staging = "s"\n[server]\nurl = "http://pacs.example.org/"', "needs plain_http"),
        ('staging = "s"\n[server]\nurl = "https://x"\nurls = 1', "Extra inputs"),
        ('staging = "s"\n[server]\nurl = "https://x"\nclient_key = "k"', "needs client_certificate"),
        ('staging = "s"\n[server]\nurl = "https://x"\nattempts = 0', "greater than or equal to 1"),
    ],
)
def test_a_bad_setting_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        load(tmp_path, text)
    assert str(tmp_path) in str(caught.value)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("host", ["http://127.0.0.1:8042/x", "http://localhost/x", "http://[::1]:1/x"])
def test_plain_http_within_this_machine_is_allowed(host: str) -> None:
    assert ServerSettings(url=host).url == host


def test_credentials_from_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("anna:pass:word\n")
    path.chmod(0o640)
    server = ServerSettings(url=URL, credentials_file=path)
    with pytest.raises(ConfigurationError, match="others may read"):
        credentials(server)
    path.chmod(0o600)
    found = credentials(server)
    assert vars(found) == {"username": b"anna", "password": b"pass:word"}


def test_credentials_from_a_program() -> None:
    server = ServerSettings(url=URL, credentials_command=("printf", "Bearer abc.def"))
    found = credentials(server)
    assert found is not None
    request = found(Request("GET", URL).prepare())
    assert request.headers["Authorization"] == "Bearer abc.def"
    for command in (("false",), ("/no/such/program",), ("printf", ""), ("printf", "nonsense"), ("printf", "a:b\nc")):
        with pytest.raises(ConfigurationError) as caught:
            credentials(ServerSettings(url=URL, credentials_command=command))
        assert "nonsense" not in str(caught.value)


def test_without_settings_nothing_is_sent() -> None:
    assert credentials(ServerSettings(url=URL)) is None


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ca_file", "cannot use ca_file"),
        ("client_certificate", "cannot use the client's certificate"),
    ],
)
@pytest.mark.parametrize("name", ["missing.pem", "junk.pem"])
def test_certificate_files_that_cannot_be_used_are_named(tmp_path: Path, setting: str, said: str, name: str) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(ConfigurationError, match=said) as caught:
        Server(ServerSettings.model_validate({"url": URL, setting: tmp_path / name}))
    assert name in str(caught.value)
