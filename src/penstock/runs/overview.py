"""All runs of a cluster by the records of `_penstock_runs`: the last record of each, and its time. Pure.

Whether a run is lost is a reader's judgement: the run's heartbeat is overdue. Clocks differ, so the judgement rests on
the broker's: the topic's timestamps are the broker's (`LogAppendTime`), and a reader's clock counts only when a fresh
heartbeat of another run agrees with it. In doubt (`has_doubts`) the reader listens for a heartbeat before it says
`lost`; a record that comes while it listens proves its run alive, whatever any clock says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.runs.records import ENDED, GRAPH_SUFFIX, Forgotten, Graph, Ignored, RunRecord, State, decode_run_record

# Per name: enough to see when a pipeline began to fail.
ENDED_KEPT: Final = 10
ENDED_KEPT_MS: Final = 30 * 24 * 3_600_000
# A run that was lost may come back (a laptop that slept), so other runs forget it no sooner.
LOST_KEPT_MS: Final = 24 * 3_600_000
# For records without a time after which the run is lost.
DEFAULT_LOST_AFTER_MS: Final = 20_000


@dataclass(frozen=True, slots=True)
class SeenRun:
    record: RunRecord
    at_ms: int  # the record's timestamp
    is_brokers_time: bool
    graph: Graph | None = None
    is_heard: bool = False  # a record came while the reader listened

    @property
    def is_ended(self) -> bool:
        return self.record.state in ENDED

    @property
    def lost_after_ms(self) -> int:
        return self.record.lost_after_ms or DEFAULT_LOST_AFTER_MS

    def age_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.at_ms)

    def is_overdue(self, now_ms: int) -> bool:
        return not self.is_ended and not self.is_heard and self.age_ms(now_ms) > self.lost_after_ms

    def state(self, now_ms: int) -> State:
        return State.LOST if self.is_overdue(now_ms) else self.record.state


@dataclass(slots=True)
class Overview:
    """Fed with every record of the topic, in order."""

    runs: dict[str, SeenRun] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)  # by reason: how many records
    is_listening: bool = False  # set when the reader has come to the end of the topic
    newest_ms: int = 0

    def take(self, key: bytes | None, value: bytes | None, at_ms: int, is_brokers_time: bool) -> None:
        record = decode_run_record(key, value)
        match record:
            case RunRecord():
                before = self.runs.get(record.run)
                graph = before.graph if before is not None else None
                self.runs[record.run] = SeenRun(record, at_ms, is_brokers_time, graph, self.is_listening)
                if is_brokers_time:
                    self.newest_ms = max(self.newest_ms, at_ms)
            case Graph():
                self._take_graph(record)
            case Forgotten():
                self._forget(record.key)
            case Ignored():
                self.ignored[record.reason] = self.ignored.get(record.reason, 0) + 1

    def _take_graph(self, graph: Graph) -> None:
        if seen := self.runs.get(graph.run):
            self.runs[graph.run] = replace(seen, graph=graph)

    def _forget(self, key: str) -> None:
        if not key.endswith(GRAPH_SUFFIX):
            self.runs.pop(key, None)
        elif seen := self.runs.get(key.removesuffix(GRAPH_SUFFIX)):
            self.runs[key.removesuffix(GRAPH_SUFFIX)] = replace(seen, graph=None)

    def brokers_time(self, now_ms: int) -> int:
        """Not before the newest record: a reader's clock that is behind would take any run for a fresh one."""
        return max(now_ms, self.newest_ms)

    def has_doubts(self, now_ms: int) -> bool:
        """Some run looks lost, and no fresh heartbeat shows that the reader's clock can be trusted."""
        if not any(run.is_overdue(now_ms) for run in self.runs.values()):
            return False
        return not any(
            run.is_brokers_time and abs(now_ms - run.at_ms) <= run.lost_after_ms
            for run in self.runs.values()
            if not run.is_ended
        )

    def longest_heartbeat_ms(self, now_ms: int) -> int:
        """Of the runs that look lost."""
        return max((run.record.heartbeat_every_ms for run in self.runs.values() if run.is_overdue(now_ms)), default=0)

    def named(self, text: str) -> list[SeenRun]:
        """The run with that id, or the runs with that name; newest first."""
        if text in self.runs:
            return [self.runs[text]]
        return newest_first(run for run in self.runs.values() if run.record.name == text)


def newest_first(runs: Iterable[SeenRun]) -> list[SeenRun]:
    return sorted(runs, key=lambda run: (run.record.started_ms, run.record.run), reverse=True)


def plan_forgetting(overview: Overview, now_ms: int) -> list[str]:
    """The keys that get tombstones: of ended runs beyond the newest of their name, and of those long ended or long
    lost."""
    forgotten: list[str] = []
    kept: dict[tuple[str, str], int] = {}
    for run in newest_first(overview.runs.values()):
        age_ms = run.age_ms(now_ms)
        name = (run.record.type, run.record.name)
        if not run.is_ended and age_ms <= LOST_KEPT_MS:
            continue
        kept[name] = kept.get(name, 0) + 1
        if kept[name] > ENDED_KEPT or age_ms > ENDED_KEPT_MS:
            forgotten += [run.record.run, run.record.run + GRAPH_SUFFIX]
    return forgotten
