"""Which sandbox backend runs here, proved by live probes."""

from __future__ import annotations

from collections.abc import Iterator

from client.doctor.check import Finding, State, fine, wrong
from client.site_config import SiteConfig
from common.errors import SandboxError
from common.sandbox.factory import BACKENDS, PROBES
from common.signing import SigningKey

__all__ = ["look"]


def look(_config: SiteConfig) -> Iterator[Finding]:
    """Open every backend, the strongest first; opening one runs its probes."""
    from stage_bank.toolkit import open_toolkit_sandbox

    reasons: dict[str, str] = {}
    for name in BACKENDS:
        try:
            open_toolkit_sandbox(SigningKey.generate(), backend=name).close()
        except SandboxError as error:
            reasons[name] = error.where or error.what
            continue
        yield fine(f"agent code runs in {name}; probed: {', '.join(PROBES)}")
        if reasons:
            better = next(iter(reasons))
            yield Finding(
                State.WARNING,
                f"{better}, which confines more, does not hold here: {reasons[better]}",
                "Allow unprivileged user namespaces.",
            )
        return
    said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    yield wrong(
        f"no sandbox holds, so no agent code will run: {said}",
        "Allow unprivileged user namespaces, or run a kernel with Landlock.",
    )
