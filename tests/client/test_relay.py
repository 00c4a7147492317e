"""The relay is light, and the launcher runs it whatever a server ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from client import launcher, relay

HEAVY = (
    "torch",
    "trl",
    "opacus",
    "transformers",
    "peft",
    "datasets",
    "pydicom",
    "scipy",
    "skimage",
    "stage_bank",
    "server",
)
IMPORT_LIMIT_S = 0.3


def isolated(code: str, *, cwd: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=cwd)
    return done.stdout


def test_the_relay_imports_nothing_heavy() -> None:
    loaded = set(json.loads(isolated("import json, sys, client.relay; print(json.dumps(list(sys.modules)))")))
    assert not [name for name in HEAVY if name in loaded]
    assert not [
        name for name in loaded if name.startswith("client.") and not name.startswith(("client.proto", "client.relay"))
    ]


def test_the_relay_costs_little_over_flower() -> None:
    """Processor seconds, best of several: what other work on the machine costs is not the relay's."""
    code = (
        "import os, flwr.supernode.runtime.run_clientapp, flwr.clientapp, flwr.app; before = sum(os.times()[:2]);"
        "import client.relay; print(sum(os.times()[:2]) - before)"
    )
    assert min(float(isolated(code)) for _ in range(3)) <= IMPORT_LIMIT_S


def test_the_launcher_is_found_first_and_is_isolated(tmp_path: Path) -> None:
    folder = launcher.install(tmp_path / "programs")
    script = folder / "flwr-clientapp"
    assert os.access(script, os.X_OK)
    assert " -I -m client.launcher " in script.read_text()


def test_a_client_package_in_the_working_folder_does_not_shadow_ours(tmp_path: Path) -> None:
    shadow = tmp_path / "client"
    shadow.mkdir()
    for name in ("__init__", "launcher", "relay"):
        (shadow / f"{name}.py").write_text("raise SystemExit('hostile code ran')\n")
    script = launcher.install(tmp_path / "programs") / "flwr-clientapp"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([script, "--help"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "hostile" not in done.stdout + done.stderr
    assert "Run one Flower message with the installed relay" in done.stdout


def test_a_relay_without_a_daemon_says_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "CONNECT_TIMEOUT_S", 0.2)
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1, raising=False)
    node = {"relay-socket": str(tmp_path / "none.sock")}
    context = Context(run_id=1, node_id=2, node_config=node, state=RecordDict(), run_config={})
    array = Array(dtype="uint8", shape=(1,), stype="safetensors", data=b"x")
    content = RecordDict({"bat": ConfigRecord({"prescription": b"{}"}), "adapter": ArrayRecord({"adapter": array})})
    for kind in ("train", "query"):
        message = Message(content, dst_node_id=2, message_type=kind)
        message.metadata.__dict__["_message_id"] = "asked"
        reply = relay.app(message, context)
        assert dict(reply.content.config_records["bat"]) == {"fault": "unreachable"}
        assert not reply.content.array_records


def test_the_generated_code_is_that_of_the_proto_file(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    root = Path(relay.__file__).parents[1]
    assert protoc.main(["", f"-I{root}", f"--python_out={tmp_path}", "client/proto/relay.proto"]) == 0

    def descriptor(folder: Path) -> str:
        lines = (folder / "client" / "proto" / "relay_pb2.py").read_text().splitlines()
        return next(line for line in lines if line.startswith("DESCRIPTOR = "))

    assert descriptor(tmp_path) == descriptor(root)
