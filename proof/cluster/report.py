"""What the rounds return: what was done, what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.testing.history import Anomaly, Outcome
from proof.verdict import CLASSES, sort_anomalies

_MOST_EXAMPLES = 10
# The last ones: two episodes, of which the second is judged at the end.
_MOST_STRIKES = 40


@dataclass
class ClusterReport:
    seed: int
    network: str
    faults: Counter[str] = field(default_factory=Counter)
    strikes: list[str] = field(default_factory=list)  # each fault with its times, as the brokers' logs have them
    acknowledged: int = 0
    sent: int = 0
    polled: int = 0
    commits: int = 0
    transactions: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    terms: int = 0  # leader epochs that were seen
    compared: int = 0  # partitions whose replicas were compared when all brokers were stopped
    slowest_sync_s: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict)  # faults that cannot be here, and why
    retried: int = 0  # second copies of records of plain producers, which promise no better
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not any(self._of_class(name) for name in CLASSES)

    @property
    def findings(self) -> int:
        return len(self.all_findings())

    def all_findings(self) -> list[str]:
        return [f"{name}: {text}" for name in CLASSES for text in self._of_class(name)]

    def _of_class(self, name: str) -> list[str]:
        texts: list[str] = getattr(self, name)
        return texts

    def add(self, anomalies: Iterable[Anomaly]) -> None:
        for name, texts in sort_anomalies(anomalies).items():
            self._of_class(name).extend(texts)

    def __str__(self) -> str:
        faults = " ".join(f"{name}={count}" for name, count in sorted(self.faults.items()))
        line = (
            f"cluster rounds: seed={self.seed} on {self.network}, faults={self.faults.total()} ({faults}) "
            f"acknowledged={self.acknowledged} sent={self.sent} polled={self.polled} retried={self.retried} "
            f"commits={self.commits} transactions_committed={self.transactions[Outcome.OK]} "
            f"aborted={self.transactions[Outcome.FAILED]} unknown={self.transactions[Outcome.UNKNOWN]} "
            f"terms={self.terms} compared={self.compared} slowest_sync_s={self.slowest_sync_s:.1f} "
            f"lost={len(self.lost)} duplicated={len(self.duplicated)} reordered={len(self.reordered)} "
            f"other={len(self.other)}"
        )
        lines = [line, *(f"  left out: {name}, because {why}" for name, why in self.skipped.items())]
        for name in CLASSES:
            lines += [f"  {name}: {text}" for text in self._of_class(name)[:_MOST_EXAMPLES]]
        if not self.is_sound:
            lines += [f"  fault: {text}" for text in self.strikes[-_MOST_STRIKES:]]
        return "\n".join(lines)
