"""A real federation on loopback for tests: real processes, real sockets, a base model that is never loaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tomli_w

from client.site_config import SiteConfig, load_site_config
from common.adapter import RawTensor, encode_adapter
from common.base_model import INITIAL_ADAPTER
from common.signing import SigningKey
from deploy.local_federation import (
    environment,
    free_port,
    start_daemon,
    start_superlink,
    start_supernode,
    wait_for_daemon,
)
from deploy.supervision import Supervisor
from tests.e2e.tap import Tap


@dataclass(frozen=True)
class Federation:
    """Paths and ports of a running federation."""

    root: Path
    supervisor: Supervisor
    port: int
    sites: dict[str, SiteConfig]
    keys: dict[str, str]

    def settings(self, **changes: object) -> Path:
        """Write a `federation.toml`."""
        optimizer = {
            "steps": 0,
            "groups_per_step": 1,
            "group_size": 2,
            "learning_rate": 1e-3,
            "kl_coefficient": 0.0,
            "temperature": 1.0,
            "max_turns": 4,
            "max_tokens": 256,
        }
        settings: dict[str, object] = {
            "run": "e2e",
            "rounds": 1,
            "model": str(self.root / "model"),
            "signing_key": str(self.root / "server.key"),
            "sites": [{"name": name, "public_key": key} for name, key in self.keys.items()],
            "optimizer": optimizer,
            "initial_target": "S1",
            "quorum": len(self.keys),
            "round_timeout_s": 60,
            "enrolment_timeout_s": 60,
            "evaluation": {"enabled": False},
            **changes,
        }
        path = self.root / "federation.toml"
        path.write_text(tomli_w.dumps(settings))
        return path

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.root / "runs" / "e2e"

    def last_words(self) -> str:
        """How each component stands and what it said last, for a failure's message."""
        return "\n".join(
            f"--- {one.name}, status {one.process.poll()}\n{one.log.read_text(errors='replace')[-2000:]}"
            for one in self.supervisor.components
        )

    def start(self, settings: Path) -> subprocess.Popen[str]:
        """Begin `bat-server run`."""
        command = [sys.executable, "-m", "server.cli", "run", str(settings), "--runs", str(self.root / "runs")]
        return subprocess.Popen(
            [*command, "--superlink", f"127.0.0.1:{self.port}"],
            env=environment(self.root / "flwr"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, settings: Path, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        """`bat-server run` to its end."""
        process = self.start(settings)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def tiny_model(folder: Path, rank: int = 4) -> Path:
    """A base model's folder with a small initial adapter; enough for rounds of zero steps."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    adapter = {}
    for layer in range(2):
        name = f"base_model.model.layers.{layer}.q_proj"
        adapter[f"{name}.lora_A.weight"] = RawTensor.from_array(rng.normal(size=(rank, 32)).astype(np.float32))
        adapter[f"{name}.lora_B.weight"] = RawTensor.from_array(np.zeros((32, rank), np.float32))
    (folder / "config.json").write_text("{}\n")
    (folder / INITIAL_ADAPTER).write_bytes(encode_adapter(adapter))
    return folder


@contextmanager
def federation(
    names: Sequence[str] = ("north", "south"),
    *,
    data: Path | None = None,
    states: int = 0,
    model: Callable[[Path], object] = tiny_model,
    taps: Mapping[str, Tap] | None = None,
) -> Iterator[Federation]:
    """Start everything, and end it again.

    Args:
        names: the sites.
        data: image folder of the sites.
        states: size of each site's bank; 0 for none.
        model: makes the base model's folder.
        taps: site to what records its way to the SuperLink.
    """
    # A short path for the sockets, which the sandbox's user may pass through.
    root = Path(tempfile.mkdtemp(prefix="bat-", dir="/tmp"))
    root.chmod(0o711)
    port = free_port()
    server = SigningKey.load_or_create(root / "server.key")
    model(root / "model")
    sites, files = {}, {}
    for name in names:
        files[name] = root / f"{name}.toml"
        settings = {
            "site": name,
            "data": str(data or root),
            "state": str(root / name),
            "model": str(root / "model"),
            "server": {"public_key": server.public.hex},
            "bank": {"states": states},
        }
        files[name].write_text(tomli_w.dumps(settings))
        sites[name] = load_site_config(files[name])
    keys = {name: SigningKey.load_or_create(site.key_file).public.hex for name, site in sites.items()}
    try:
        with ExitStack() as stack:
            supervisor = stack.enter_context(Supervisor(root / "logs", environment(root / "flwr")))
            start_superlink(supervisor, port)
            for name, site in sites.items():
                start_daemon(supervisor, files[name], site)
            for name, site in sites.items():
                wait_for_daemon(supervisor, site)
                tap = (taps or {}).get(name)
                start_supernode(
                    supervisor,
                    name,
                    superlink=stack.enter_context(tap.open(port)) if tap else port,
                    port=free_port(),
                    relay_socket=site.relay_socket,
                    programs=root / "programs",
                )
            yield Federation(root, supervisor, port, sites, keys)
    finally:
        shutil.rmtree(root, ignore_errors=True)
