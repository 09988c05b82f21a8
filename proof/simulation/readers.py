"""Clients that read, as consumers do: everything, or committed records alone."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from penstock.protocol.batch import HEADER_SIZE, is_crc_valid, read_header
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Buffer
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.protocol.records import CONTROL_ABORT, Record, decode_end_marker, iterate_records
from penstock.testing.history import Action, Assign, Isolation, Poll
from proof.simulation.client import TRANSIENT, Call, Client, Script, ask
from proof.simulation.notebook import Partition
from proof.simulation.topics import KEYED, RECORDS, RECORDS_PARTITIONS, name_record

FETCH_VERSION = 12
_MAX_WAIT_MS = 400
_RETRY_MS = 30.0


class Batches(NamedTuple):
    """What a fetch brought of one partition: the records to be seen, and where to go on."""

    records: list[Record]
    next_offset: int
    is_damaged: bool = False


class Reader(Client):
    isolation = Isolation.READ_UNCOMMITTED

    def run(self) -> Script:
        partitions: list[Partition] = [(RECORDS, index) for index in range(RECORDS_PARTITIONS)]
        partitions.append((KEYED, 0))
        positions = dict.fromkeys(partitions, 0)
        power_cuts = -1
        while self.goes_on:
            invoked = self.notebook.position()
            actions: list[Action] = []
            if power_cuts != self.notebook.power_cuts:
                # The log may have been cut below where this reader was: it begins again.
                power_cuts = self.notebook.power_cuts
                positions = dict.fromkeys(partitions, 0)
                actions.append(Assign(frozenset(partitions)))
                self.notebook.polled(self.number, self.isolation, invoked, tuple(actions))
                continue
            node, wanted = yield from self._choose_leader(positions)
            if not wanted:
                yield _RETRY_MS
                continue
            response = yield from ask(Call(self._request(wanted), FETCH_VERSION, node=node), FetchResponse)
            if response is None or power_cuts != self.notebook.power_cuts:
                continue
            for topic in response.responses:
                for data in topic.partitions:
                    topic_partition = (topic.topic, data.partition_index)
                    actions += self._take(topic_partition, data, positions)
            if actions:
                self.notebook.polled(self.number, self.isolation, invoked, tuple(actions))
            yield self.pause()

    def _choose_leader(
        self, positions: dict[Partition, int]
    ) -> Generator[Call | float, Any, tuple[int | None, dict[Partition, int]]]:
        """Whom to ask next, and for what: one leader at a time, for all that it leads."""
        if self.is_alone:
            return None, positions
        yield from self.find_leaders(list(positions))
        led = {partition: self.known_leader(partition) for partition in positions}
        leaders = sorted({leader for leader in led.values() if leader is not None})
        if not leaders:
            return None, {}
        node = self.chance.choice(leaders)
        return node, {partition: offset for partition, offset in positions.items() if led[partition] == node}

    def _request(self, positions: dict[Partition, int]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, index), offset in positions.items():
            part = FetchPartition(
                partition=index,
                current_leader_epoch=self.known_epoch((topic, index)),
                fetch_offset=offset,
                partition_max_bytes=self.chance.choice((1, 400)),
            )
            topics.setdefault(topic, []).append(part)
        return FetchRequest(
            max_wait_ms=self.chance.choice((0, _MAX_WAIT_MS)),
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self.isolation is Isolation.READ_COMMITTED),
            topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
        )

    def _take(
        self, topic_partition: Partition, data: PartitionData, positions: dict[Partition, int]
    ) -> Iterator[Action]:
        log_name = f"{topic_partition[0]}-{topic_partition[1]}"
        if data.error_code:
            self.note(f"{log_name} from {positions[topic_partition]}: {ErrorCode(data.error_code).name}")
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.notebook.fail(
                    f"{self.name} stands at {positions[topic_partition]} of {topic_partition}, which is out of range"
                )
                positions[topic_partition] = 0
                yield Assign(frozenset([topic_partition]))
            elif data.error_code not in TRANSIENT:
                self.notebook.fail(f"{self.name} cannot read {topic_partition}: {ErrorCode(data.error_code).name}")
            return
        batches = open_batches(data, positions[topic_partition], self.isolation)
        if batches.is_damaged:
            self.notebook.fail(f"{self.name} was served a damaged batch of {topic_partition}")
        limit = data.last_stable_offset if self.isolation is Isolation.READ_COMMITTED else data.high_watermark
        if batches.next_offset > max(limit, positions[topic_partition]):
            self.notebook.fail(f"{self.name} was served {topic_partition} up to {batches.next_offset}, beyond {limit}")
        positions[topic_partition] = batches.next_offset
        seen = tuple((record.offset, name_record(record)) for record in batches.records)
        if seen:
            self.note(f"{log_name}: {seen[0][0]} to {seen[-1][0]}")
            yield Poll(*topic_partition, seen)


class CommittedReader(Reader):
    isolation = Isolation.READ_COMMITTED


def open_batches(data: PartitionData, position: int, isolation: Isolation) -> Batches:
    """The records that a consumer shows: no control records, and in committed reads none of aborted transactions."""
    content: Buffer = data.records or b""  # type: ignore[assignment]
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    open_aborted: set[int] = set()
    records: list[Record] = []
    at = 0
    while len(content) - at >= HEADER_SIZE:
        header = read_header(content, at)
        if at + header.size > len(content):
            break
        batch = content[at : at + header.size]
        if not is_crc_valid(batch, 0, header):
            return Batches(records, position, is_damaged=True)
        at += header.size
        while aborted and aborted[0][0] <= header.last_offset:
            open_aborted.add(aborted.pop(0)[1])
        if header.is_control:
            markers = [decode_end_marker(record) for record in iterate_records(batch)]
            if any(marker is not None and marker.control_type == CONTROL_ABORT for marker in markers):
                open_aborted.discard(header.producer_id)
        elif isolation is Isolation.READ_UNCOMMITTED or not (
            header.is_transactional and header.producer_id in open_aborted
        ):
            records += [record for record in iterate_records(batch) if record.offset >= position]
        position = max(position, header.next_offset)
    return Batches(records, position)
