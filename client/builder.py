"""The bank builder's own process: fills the Stage Bank beside training, at a lower priority.

The daemon starts it as `python -m client.builder`, gives it the site's settings as the first line of its input, and
keeps that input open: when it closes, the daemon has ended and the builder ends too. What it has to say goes to its
output, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping

from client.bank_builder import fill_bank
from client.site_config import SiteConfig
from common.canonical import Json
from common.ending import end_in_order
from common.errors import BatError
from common.signing import SigningKey
from stage_bank.store import Snapshot
from stage_bank.toolkit import open_toolkit_sandbox

__all__ = ["main"]


def main() -> int:
    """Fill the bank once; 0 when it is full, 1 on a reported error, 130 when told to end."""
    config = SiteConfig.model_validate_json(sys.stdin.readline())
    os.nice(config.bank.nice)
    end_in_order()
    done = threading.Event()
    threading.Thread(target=_end_with_the_daemon, args=(done,), daemon=True).start()
    sandbox = None
    try:
        sandbox = open_toolkit_sandbox(SigningKey.generate())
        filled = fill_bank(config, sandbox, lambda record: _say("progress", record), _announce)
        done.set()
        _say("filled", {"kept_out_by_wall": filled.rejected, "report": list(filled.report)})
    except BatError as error:
        done.set()
        _say("error", {"kind": _kind(error), "what": error.what, "where": error.where, "remedy": error.remedy})
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if sandbox is not None:
            sandbox.close()
    return 0


def _kind(error: BatError) -> str:
    """The error's nearest class that the daemon knows too."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == BatError.__module__)


def _announce(snapshot: Snapshot) -> None:
    patients = len({row.patient for row in snapshot.rows})
    _say(
        "snapshot",
        {"number": snapshot.number, "digest": snapshot.digest, "states": len(snapshot.rows), "patients": patients},
    )


def _say(kind: str, body: Mapping[str, Json]) -> None:
    print(json.dumps({"kind": kind, "body": dict(body)}), flush=True)


def _end_with_the_daemon(done: threading.Event) -> None:
    sys.stdin.read()
    if not done.is_set():
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
