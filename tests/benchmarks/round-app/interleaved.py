"""One Flower app for both kinds of node: its client does nothing, its server takes turns with our round loop.

The nodes of our sites never load this client: their launcher runs the installed relay whatever is shipped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from common.base_model import read_base_model
from common.signing import SigningKey
from server.config import load_federation_config
from server.round_loop import RoundLoop
from server.run_directory import RunDirectory
from server.transport import POLL_S, FlowerTransport
from server.verification import Reply

client = ClientApp()
server = ServerApp()


@client.query()
@client.train()
def nothing(message: Message, context: Context) -> Message:
    """Flower's no-op."""
    return Message(RecordDict(), reply_to=message)


class InterleavedTransport(FlowerTransport):
    """Before each of our rounds, a no-op round over the plain nodes, looked for as often as ours."""

    def __init__(self, grid: Grid, record: Path) -> None:
        super().__init__(grid)
        self._record = record
        self._seconds: list[float] = []

    def exchange(
        self, prescriptions: Mapping[str, bytes], adapter: bytes, timeout_s: float
    ) -> Iterator[tuple[str, Reply]]:
        started = time.monotonic()
        self._no_op_round()
        self._seconds.append(time.monotonic() - started)
        self._record.write_text(json.dumps(self._seconds))
        yield from super().exchange(prescriptions, adapter, timeout_s)

    def _no_op_round(self) -> None:
        plain = set(self._grid.get_node_ids()) - set(self._nodes.values())
        pending = {self._send(RecordDict(), "train", node) for node in plain}
        while pending:
            for reply in self._grid.pull_messages(list(pending)):
                pending.discard(reply.metadata.reply_to_message_id)
            if pending:
                time.sleep(POLL_S)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run both kinds of round by turns."""
    path = Path(str(context.run_config["directory"]))
    config = load_federation_config(path / "config.toml")
    key = SigningKey.load(config.signing_key)
    directory = RunDirectory(path, key)
    transport = InterleavedTransport(grid, path / "no_op_rounds.json")
    RoundLoop(config, directory, transport, key, read_base_model(config.model), None).run()
