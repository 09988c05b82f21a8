"""What a broker holds after its disk has failed and healed, against what it told its clients before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.proof.disk.clients import PLAIN_GROUP, History, Outcome, Sent, TransactionalProducer, Where, Wire
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

_BY_NAME = 12
_LIST_OFFSETS_VERSION = 7
_EARLIEST = -2
_MAX_BYTES = 1 << 26
_SETTLE_S = 20.0
_PAUSE_S = 0.01


@dataclass
class PartitionView:
    """One partition from its start to its end, as a reader of either kind gets it."""

    where: Where
    code: ErrorCode | None = None
    log_start: int = 0
    high_watermark: int = 0
    last_stable: int = 0
    records: list[Record] = field(default_factory=list)


def read_partition(
    wire: Wire, where: Where, note: Callable[[str], None], *, is_committed: bool = False, has_holes: bool = False
) -> PartitionView:
    answer = _find_start(wire, where)
    view = PartitionView(where, wire.judge(answer, f"the start of {where}"))
    if view.code is not ErrorCode.NONE:
        return view
    position = answer.offset
    while True:
        answer = _fetch(wire, where, position, is_committed)
        view.code = wire.judge(answer, f"a fetch of {where}")
        if view.code is not ErrorCode.NONE:
            return view
        view.log_start, view.high_watermark = answer.log_start_offset, answer.high_watermark
        view.last_stable = answer.last_stable_offset
        following = _take(view, answer, position, note, has_holes)
        if following == position:
            return view
        position = following


def _find_start(wire: Wire, where: Where) -> Any:
    partition = ListOffsetsPartition(partition_index=where[1], timestamp=_EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=where[0], partitions=[partition])])
    answer = wire.ask(request, _LIST_OFFSETS_VERSION)
    return None if answer is None else answer.topics[0].partitions[0]


def _fetch(wire: Wire, where: Where, position: int, is_committed: bool) -> Any:
    partition = FetchPartition(partition=where[1], fetch_offset=position, partition_max_bytes=_MAX_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=_MAX_BYTES,
        isolation_level=int(is_committed),
        topics=[FetchTopic(topic=where[0], partitions=[partition])],
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
                note(f"{view.where}: the batch at offset {header.base_offset} was served damaged")
            if header.base_offset > following and not has_holes:
                note(f"{view.where}: offset {following} is missing before {header.base_offset}")
            while aborted and aborted[0][0] <= header.last_offset:
                open_aborted.add(aborted.pop(0)[1])
            if header.is_control:
                open_aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_aborted):
                batch = data[start : start + header.size]
                view.records += [one for one in iterate_records(batch) if one.offset >= position]
            following = max(following, header.next_offset)
    except ApiError as error:
        note(f"{view.where}: what was served at {position} cannot be read: {error}")
    return following


def note_served(view: PartitionView, history: History) -> None:
    """What stands at an offset never changes, and is what was acknowledged with it."""
    served = history.served[view.where]
    for record in view.records:
        value = record.value or b""
        if served.setdefault(record.offset, value) != value:
            history.findings.append(f"{view.where}: offset {record.offset} was served with another record before")


class DiskCheck:
    def __init__(
        self, wire: Wire, history: History, targets: Iterable[Where], compacted: Where, retained: Iterable[Where]
    ) -> None:
        self._wire = wire
        self._history = history
        self._targets = list(targets)
        self._compacted = compacted
        self._retained = set(retained)
        self._views: dict[Where, PartitionView] = {}

    def run(self, transactional: Iterable[TransactionalProducer]) -> None:
        transactional = list(transactional)
        for producer in transactional:
            self._settle(lambda producer=producer: producer.start(self._wire), f"{producer.name} cannot start")  # type: ignore[misc]
        self._settle(self._is_everything_stable, "transactions are left open")
        for where in self._targets:
            self._views[where] = self._read(where, is_committed=False)
        for sent in self._history.sent:
            self._check_sent(sent)
        self._check_copies()
        self._check_transactions(transactional)
        self._check_compacted()
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
        views = [self._read(where, is_committed=True) for where in self._targets]
        return all(view.code is ErrorCode.NONE and view.last_stable == view.high_watermark for view in views)

    def _read(self, where: Where, is_committed: bool) -> PartitionView:
        return read_partition(
            self._wire, where, self._note, is_committed=is_committed, has_holes=where == self._compacted
        )

    # ---- records

    def _check_sent(self, sent: Sent) -> None:
        """An acknowledged record stands where the acknowledgement said, unless retention or compaction took it."""
        view = self._views[sent.where]
        if sent.outcome is not Outcome.DONE or sent.where == self._compacted:
            return
        if sent.offset < 0:  # acknowledged as a duplicate, without its offset
            found = any(record.value == sent.value for record in view.records)
        else:
            found = sent.offset < view.log_start or self._value_at(sent.where).get(sent.offset) == sent.value
        if not found:
            self._note(f"lost: {sent.value[:30]!r} of {sent.where} at offset {sent.offset}")

    def _value_at(self, where: Where) -> dict[int, bytes | None]:
        return {record.offset: record.value for record in self._views[where].records}

    def _check_copies(self) -> None:
        known = {sent.value for sent in self._history.sent}
        known |= {sent.value for each in self._history.transactions for sent in each.records}
        for where, view in self._views.items():
            if view.log_start > self._history.low_watermarks.get(where, 0) and where not in self._retained:
                self._note(f"{where} begins at {view.log_start}, and nobody deleted anything")
            counts = Counter(record.value for record in view.records)
            for value, count in counts.items():
                if value not in known:
                    self._note(f"{where} holds {value!r}, which nobody wrote")
                elif count > 1:
                    self._note(f"duplicated: {value[:30] if value else value!r} of {where} stands there {count} times")
            note_served(view, self._history)
            self._check_order(where, view)

    def _check_order(self, where: Where, view: PartitionView) -> None:
        newest: dict[bytes, int] = {}
        for record in view.records:
            name, number, _ = (record.value or b"?/0/").split(b"/")
            if int(number) < newest.get(name, 0):
                self._note(f"reordered: {name!r} {number!r} comes after {newest[name]} in {where}")
            newest[name] = int(number)

    def _check_compacted(self) -> None:
        sent = [each for each in self._history.sent if each.where == self._compacted]
        order = {each.value: index for index, each in enumerate(sent)}
        latest = {record.key: record.value for record in self._views[self._compacted].records}
        for key in {each.key for each in sent}:
            least = max(
                (order[each.value] for each in sent if each.key == key and each.outcome is Outcome.DONE), default=-1
            )
            found = order.get(latest.get(key) or b"", -1)
            if found < least:
                self._note(f"lost: the latest value of {key!r} in {self._compacted}")

    # ---- transactions, offsets, topics

    def _check_transactions(self, transactional: Iterable[TransactionalProducer]) -> None:
        visible: Counter[bytes | None] = Counter()
        for where in self._targets:
            visible.update(record.value for record in self._read(where, is_committed=True).records)
        shown = []
        for transaction in self._history.transactions:
            counts = {visible[sent.value] for sent in transaction.records}
            if counts == {1}:
                shown.append(transaction)
            if transaction.outcome is Outcome.DONE and counts != {1}:
                self._note(f"lost: of a committed transaction {counts} copies are visible")
            elif transaction.outcome is Outcome.ABORTED and counts != {0}:
                self._note(f"{counts} copies of an aborted transaction's records are visible")
            elif transaction.outcome is Outcome.UNKNOWN and len(counts) > 1:
                self._note(f"a transaction of unknown outcome is visible in part: {counts}")
        for producer in transactional:
            offsets = [
                each.offset
                for each in shown
                if each.offset >= 0 and each.records[0].value.startswith(producer.name.encode() + b"/")
            ]
            found = self._committed_offset(producer.group, self._targets)
            if found != max(offsets, default=-1):
                self._note(f"{producer.group} has offset {found} and its transactions say {max(offsets, default=-1)}")
        least, most = self._history.committed, self._history.commit_attempted
        found = self._committed_offset(PLAIN_GROUP, self._targets)
        if least and not least <= found <= most:
            self._note(f"lost: offset {least} was committed, {most} attempted, {found} found")

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
        found = [one.committed_offset for each in answers for topic in each.topics for one in topic.partitions]
        return max(found, default=-1)

    def _check_topics(self) -> None:
        answer = self._wire.ask(MetadataRequest(topics=None))
        known = set() if answer is None else {topic.name for topic in answer.topics}
        for name in self._history.topics_made - self._history.topics_deleted - known:
            self._note(f"topic {name} was made and is gone")
        for name in self._history.topics_deleted & known:
            self._note(f"topic {name} was deleted and is back")
