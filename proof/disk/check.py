"""What a broker holds after its disk has failed and healed, against what it told its clients before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.protocol.batch import is_crc_valid, iterate_batches
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.records import Record, iterate_records
from penstock.testing.history import Anomaly, Final, GroupPartition, Isolation, Operation, Outcome, Poll, Where
from penstock.testing.history_check import Expectations, check
from proof.disk.clients import PLAIN_GROUP, History, TransactionalProducer, Wire, name_value
from proof.promises import check_last_commit, check_topics
from proof.verdict import sort_anomalies

_BY_NAME = 12
_LIST_OFFSETS_VERSION = 7
_EARLIEST = -2
_MAX_BYTES = 1 << 26
_SETTLE_S = 20.0
_PAUSE_S = 0.01
_FIRST_READER = 1_000
_MOST_TEXT = 300  # characters of a finding: values may be long


@dataclass
class PartitionView:
    """One partition from its start to its end, as a reader of either kind gets it."""

    topic_partition: Where
    code: ErrorCode | None = None
    log_start: int = 0
    high_watermark: int = 0
    last_stable: int = 0
    records: list[Record] = field(default_factory=list)


def read_partition(
    wire: Wire,
    topic_partition: Where,
    note: Callable[[str], None],
    *,
    is_committed: bool = False,
    has_holes: bool = False,
) -> PartitionView:
    answer = _find_start(wire, topic_partition)
    view = PartitionView(topic_partition, wire.judge(answer, f"the start of {topic_partition}"))
    if view.code is not ErrorCode.NONE:
        return view
    position = answer.offset
    while True:
        answer = _fetch(wire, topic_partition, position, is_committed)
        view.code = wire.judge(answer, f"a fetch of {topic_partition}")
        if view.code is not ErrorCode.NONE:
            return view
        view.log_start, view.high_watermark = answer.log_start_offset, answer.high_watermark
        view.last_stable = answer.last_stable_offset
        following = _take(view, answer, position, note, has_holes)
        if following == position:
            return view
        position = following


def _find_start(wire: Wire, topic_partition: Where) -> Any:
    partition = ListOffsetsPartition(partition_index=topic_partition[1], timestamp=_EARLIEST)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic_partition[0], partitions=[partition])]
    )
    answer = wire.ask(request, _LIST_OFFSETS_VERSION)
    return None if answer is None else answer.topics[0].partitions[0]


def _fetch(wire: Wire, topic_partition: Where, position: int, is_committed: bool) -> Any:
    partition = FetchPartition(partition=topic_partition[1], fetch_offset=position, partition_max_bytes=_MAX_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=_MAX_BYTES,
        isolation_level=int(is_committed),
        topics=[FetchTopic(topic=topic_partition[0], partitions=[partition])],
    )
    answer = wire.ask(request, _BY_NAME)
    return None if answer is None else answer.responses[0].partitions[0]


def _take(view: PartitionView, answer: Any, position: int, note: Callable[[str], None], has_holes: bool) -> int:
    """Adds what an answer holds; the offset after it."""
    data = bytes(answer.records or b"")
    aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    open_aborted: set[int] = set()
    following = position
    try:
        for start, header in iterate_batches(data):
            if not is_crc_valid(data, start, header):
                note(f"{view.topic_partition}: the batch at offset {header.base_offset} was served damaged")
            if header.base_offset > following and not has_holes:
                note(f"{view.topic_partition}: offset {following} is missing before {header.base_offset}")
            while aborted and aborted[0][0] <= header.last_offset:
                open_aborted.add(aborted.pop(0)[1])
            if header.is_control:
                open_aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_aborted):
                batch = data[start : start + header.size]
                view.records += [record for record in iterate_records(batch) if record.offset >= position]
            following = max(following, header.next_offset)
    except ApiError as error:
        note(f"{view.topic_partition}: what was served at {position} cannot be read: {error}")
    return following


def note_served(view: PartitionView, history: History) -> None:
    """The record at an offset never changes, and is the one that was acknowledged with that offset."""
    poll = Poll(
        *view.topic_partition, tuple((record.offset, name_value(record.key, record.value)) for record in view.records)
    )
    process = _FIRST_READER + len(history.polls)  # each from the start, like a new one
    history.polls.append(Operation(process, Outcome.OK, (poll,), isolation=Isolation.READ_UNCOMMITTED))


def judge_history(
    history: History,
    final: Final,
    committed: Mapping[GroupPartition, int],
    compacted: str,
    starts: Mapping[Where, int],
) -> list[Anomaly]:
    """Pure. Every producer here sends one batch after the other and nothing twice that it was not told to."""
    expected = Expectations(
        compacted=[compacted],
        starts=starts,
        ordered=list(history.processes().values()),
        is_complete=True,
    )
    return list(check(history.operations(), final=final, committed=committed, expected=expected).anomalies)


class DiskCheck:
    """`compacted`, `retained` and `transacted` say which of the targets are special; the last is a topic."""

    def __init__(
        self,
        wire: Wire,
        history: History,
        targets: Iterable[Where],
        compacted: Where,
        retained: Iterable[Where],
        transacted: str,
    ) -> None:
        self._wire = wire
        self._history = history
        self._targets = list(targets)
        self._compacted = compacted
        self._retained = set(retained)
        self._transacted = transacted
        self._views: dict[Where, PartitionView] = {}

    def run(self, transactional: Iterable[TransactionalProducer]) -> None:
        transactional = list(transactional)
        for producer in transactional:
            self._settle(partial(producer.start, self._wire), f"{producer.name} cannot start")
        self._settle(self._is_everything_stable, "transactions are left open")
        for topic_partition in self._targets:
            self._views[topic_partition] = self._read(topic_partition, is_committed=False)
            self._check_start(self._views[topic_partition])
            note_served(self._views[topic_partition], self._history)
        self._check_history(transactional)
        self._check_topics()

    def _note(self, text: str) -> None:
        self._history.findings.append(text)

    def _settle(self, is_done: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while not is_done():
            if time.monotonic() > deadline:
                self._note(f"{problem} {_SETTLE_S} s after the last start")
                return
            time.sleep(_PAUSE_S)

    def _is_everything_stable(self) -> bool:
        views = [self._read(topic_partition, is_committed=True) for topic_partition in self._targets]
        return all(view.code is ErrorCode.NONE and view.last_stable == view.high_watermark for view in views)

    def _read(self, topic_partition: Where, is_committed: bool) -> PartitionView:
        return read_partition(
            self._wire,
            topic_partition,
            self._note,
            is_committed=is_committed,
            has_holes=topic_partition == self._compacted,
        )

    # ---- records, transactions, offsets

    def _check_start(self, view: PartitionView) -> None:
        if (
            view.log_start > self._history.low_watermarks.get(view.topic_partition, 0)
            and view.topic_partition not in self._retained
        ):
            self._note(f"{view.topic_partition} begins at {view.log_start}, and nobody deleted anything")

    def _check_history(self, transactional: Sequence[TransactionalProducer]) -> None:
        """Judges by the rules of all rounds. Records that retention deleted or newer ones replaced may be gone."""
        final = {}
        for topic_partition in self._targets:
            records = self._read(topic_partition, is_committed=True).records
            final[topic_partition] = [(record.offset, name_value(record.key, record.value)) for record in records]
        offset_place = min(
            topic_partition for topic_partition in self._targets if topic_partition[0] == self._transacted
        )
        committed = {
            (producer.group, offset_place): self._committed_offset(producer.group, self._targets)
            for producer in transactional
        }
        starts = {topic_partition: self._views[topic_partition].log_start for topic_partition in self._retained}
        anomalies = judge_history(self._history, final, committed, self._compacted[0], starts)
        least, most = self._history.committed, self._history.commit_attempted
        offset = self._committed_offset(PLAIN_GROUP, self._targets)
        anomalies += check_last_commit(PLAIN_GROUP, self._targets[0], least, most, offset)
        for name, texts in sort_anomalies(anomalies).items():
            for text in texts:
                self._note(f"{name}: {text[:_MOST_TEXT]}")

    def _committed_offset(self, group: str, targets: Iterable[Where]) -> int:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=[partition]) for name, partition in sorted(targets)
        ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
        answers: list[Any] = []

        def ask() -> bool:
            answer = self._wire.ask(request, 9)
            answers[:] = [] if answer is None else answer.groups
            return bool(answers) and self._wire.judge(answers[0], f"the offsets of {group}") is ErrorCode.NONE

        self._settle(ask, f"the offsets of {group} cannot be read")
        offsets = [
            partition.committed_offset for each in answers for topic in each.topics for partition in topic.partitions
        ]
        return max(offsets, default=-1)

    def _check_topics(self) -> None:
        answer = self._wire.ask(MetadataRequest(topics=None))
        known = set() if answer is None else {topic.name for topic in answer.topics}
        made, deleted = self._history.topics_made - self._history.topics_deleted, self._history.topics_deleted
        for problem in check_topics(sorted(made), sorted(deleted), known):
            self._note(problem)
