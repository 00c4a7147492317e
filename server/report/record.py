"""What a run left behind, as plain typed data: the one input of report and summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.messages import SelectionReason
from common.stages import Stage, Track

__all__ = [
    "GateRecord",
    "Practice",
    "ReleaseRecord",
    "RoundRecord",
    "RunRecord",
    "Scores",
    "SealedScores",
    "SiteRecord",
]


@dataclass(frozen=True)
class Scores:
    """Means of one evaluation on the gate suite, all in [0, 1].

    Args:
        overall: half task, half agentic.
        task: mean task score.
        agentic: weighted stage mean.
        stages: mean per stage, without the stages that left no evidence.
        tracks: mean overall per track.
    """

    overall: float
    task: float
    agentic: float
    stages: Mapping[Stage, float]
    tracks: Mapping[Track, float]


@dataclass(frozen=True)
class GateRecord:
    """The gate's verdict on one candidate.

    Args:
        promoted: whether the candidate replaced the standing adapter.
        checks: name of a check to whether it held.
        overall_drop: standing minus candidate, mean overall.
        task_drop: standing minus candidate, mean task score.
    """

    promoted: bool
    checks: Mapping[str, bool]
    overall_drop: float
    task_drop: float

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of the checks that did not hold."""
        return tuple(name for name, held in self.checks.items() if not held)


@dataclass(frozen=True)
class ReleaseRecord:
    """One adapter update that left a site.

    Args:
        site: who sent it.
        round: from 1.
        tensors: how many tensors it holds.
        bytes: size on the wire of the safetensors file.
        digest: SHA-256 of those bytes, 64 hex digits.
    """

    site: str
    round: int
    tensors: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class RoundRecord:
    """One round, as far as it came.

    Args:
        number: from 1.
        target: the stage the sites practised most.
        reason: why that stage was chosen.
        candidate: the aggregated adapter's scores, or `None` while it has not been evaluated.
        gate: the verdict, or `None` while there is none.
        releases: what arrived, in site order.
        absent: site to why nothing of it was used (a refusal code, or that it did not answer).
        wall_s: elapsed seconds from prescription to verdict, or `None` while it runs.
    """

    number: int
    target: Stage
    reason: SelectionReason
    candidate: Scores | None
    gate: GateRecord | None
    releases: tuple[ReleaseRecord, ...]
    absent: Mapping[str, str]
    wall_s: float | None


@dataclass(frozen=True)
class SealedScores:
    """Mean overall on the sealed suite, which gate and curriculum never see.

    Args:
        cold_start: the policy before any round.
        final: the last promoted adapter.
        oracle: the right command everywhere.
        fixed_script: the best command script that does not look at the data, chosen per stage and track.
    """

    cold_start: float
    final: float
    oracle: float
    fixed_script: float

    @property
    def gain(self) -> float | None:
        """Final over cold start, or `None` when the cold start scored zero."""
        return self.final / self.cold_start if self.cold_start > 0 else None


@dataclass(frozen=True)
class SiteRecord:
    """What the server knows about one site; nothing of its data.

    Args:
        name: the site.
        rounds_used: rounds whose aggregate holds its update.
        rounds_asked: rounds in which it was asked.
        bytes: total of its releases.
        absent: round to why nothing was used.
    """

    name: str
    rounds_used: int
    rounds_asked: int
    bytes: int
    absent: Mapping[int, str]


@dataclass(frozen=True)
class Practice:
    """What a site's own files say of its training; a server has it only where both run for one person, as in the demo.

    Args:
        site: name.
        rewards: mean reward of each round it trained in, in [0, 1].
        bank_wait_s: longest wait for the Stage Bank before a round, in seconds.
    """

    site: str
    rewards: tuple[float, ...]
    bank_wait_s: float


@dataclass(frozen=True)
class RunRecord:
    """A whole run.

    Args:
        run: identifier, the name of its directory.
        seed: seed of the run.
        sites: names, sorted.
        rounds_planned: how many rounds were asked for.
        aggregation: name of the rule.
        differential_privacy: whether the sites trained with it.
        start: scores of the cold start on the gate suite, or `None` when it was not evaluated yet.
        rounds: in order.
        sealed: sealed-suite scores, or `None` when the run has not come that far.
        complete: whether the run reached its end.
        state: one clause on how far it came.
        versions: package to version.
        ledger_events: number of events in the server's ledger.
        ledger_head: digest of the last one, 64 hex digits.
        wall_s: elapsed seconds from the first to the last recorded event.
        practice: what the sites' own files say, where the server can see them; empty in a real federation.
    """

    run: str
    seed: int
    sites: tuple[str, ...]
    rounds_planned: int
    aggregation: str
    differential_privacy: bool
    start: Scores | None
    rounds: tuple[RoundRecord, ...]
    sealed: SealedScores | None
    complete: bool
    state: str
    versions: Mapping[str, str]
    ledger_events: int
    ledger_head: str
    wall_s: float
    practice: tuple[Practice, ...] = ()

    @property
    def releases(self) -> tuple[ReleaseRecord, ...]:
        """Every release of the run, by round and site."""
        return tuple(release for one in self.rounds for release in one.releases)

    @property
    def standing(self) -> Scores | None:
        """Gate-suite scores of the last promoted adapter (the cold start when none was promoted)."""
        promoted = [one.candidate for one in self.rounds if one.gate is not None and one.gate.promoted]
        return promoted[-1] if promoted else self.start

    @property
    def per_site(self) -> tuple[SiteRecord, ...]:
        """One row a site."""
        return tuple(self._site(name) for name in self.sites)

    def _site(self, name: str) -> SiteRecord:
        own = [release for release in self.releases if release.site == name]
        absent = {one.number: one.absent[name] for one in self.rounds if name in one.absent}
        return SiteRecord(
            name=name,
            rounds_used=len(own),
            rounds_asked=len(own) + len(absent),
            bytes=sum(release.bytes for release in own),
            absent=absent,
        )
