"""Where records stand in a partition, with the batch that brought each: read raw, since no client library tells a
batch's producer id, epoch and sequences. Judged by the rules of all rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.client.addresses import parse_servers
from penstock.client.batches.fetched_batches import find_batches, open_sections
from penstock.client.brokers import Brokers
from penstock.client.partition_fetch import LATEST, offset_of
from penstock.core.types import Buffer
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.record_reading import read_records
from penstock.testing.history import Anomaly, Outcome, Send, Where
from proof.crash.check import judge_stream
from proof.fleet.streams import StreamLog, name_stored

_FETCH_BYTES = 1024 * 1024
_NO_END = 2**63 - 1
_MOST_PLACES = 4  # that a finding names
# Either the broker said that it has the record already, or the library takes it for written because a later one is.
WITHOUT_OFFSET = "acknowledged without an offset"


class Placed(NamedTuple):
    """A record by its name, and the header of its batch."""

    offset: int
    name: str
    header: BatchHeader

    @property
    def sequence(self) -> int:
        return self.header.base_sequence + self.offset - self.header.base_offset

    def __str__(self) -> str:
        header = self.header
        return (
            f"offset {self.offset} (producer {header.producer_id} epoch {header.producer_epoch} sequence "
            f"{self.sequence}, in a batch of sequences {header.base_sequence} to {header.last_sequence} at offset "
            f"{header.base_offset}, leader epoch {header.leader_epoch})"
        )


async def read_placed(servers: str, targets: Sequence[Where]) -> dict[Where, list[Placed]]:
    """Everything that the partitions hold, committed or not. OSError and ApiError."""
    async with Brokers(parse_servers(servers)) as brokers:
        return {target: await _read_partition(brokers, target) for target in targets}


async def _read_partition(brokers: Brokers, target: Where) -> list[Placed]:
    topic, partition = target
    end = await offset_of(brokers, topic, partition, LATEST)
    placed: list[Placed] = []
    offset = 0
    while offset < end:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer: FetchResponse = await brokers.ask_leader(topic, partition, request, retry=True)
        data = answer.responses[0].partitions[0]
        for code in (answer.error_code, data.error_code):
            if code != ErrorCode.NONE:
                raise error_of(code)
        records = data.records or b""
        assert isinstance(records, bytes | bytearray | memoryview), "what came over the wire is in memory"
        found = place_records(records, offset)
        placed += found
        if found:
            offset = found[-1].offset + 1
        else:  # another leader may have less
            end = await offset_of(brokers, topic, partition, LATEST)
    return placed


def place_records(data: Buffer, start: int) -> list[Placed]:
    """Pure. The records of whole batches, from `start` on."""
    sections = open_sections(data, find_batches(data), None, start, _NO_END)
    return [
        Placed(offset, name_stored(value, key), header)
        for header, section in sections
        for offset, _, key, value, _ in read_records(header, section)
        if offset >= start
    ]


def judge_placed(placed: Mapping[Where, Sequence[Placed]], log: StreamLog) -> list[Anomaly]:
    """Pure. What the sender was promised against what the partitions hold; each text ends with where the record is."""
    targets = sorted(placed)
    anomalies: list[Anomaly] = []
    for target in targets:
        stored = [(each.offset, each.name) for each in placed[target]]
        judged = judge_stream(targets, target, [log], [], stored, has_other_leaders=True)
        told = {
            send.value: (operation.outcome, send.offset)
            for operation in log.operations(targets, target)
            for send in operation.actions
            if isinstance(send, Send)
        }
        anomalies += [_explain(each, placed[target], told) for each in judged.anomalies]
    return anomalies


def _explain(anomaly: Anomaly, placed: Sequence[Placed], told: Mapping[object, tuple[Outcome, int | None]]) -> Anomaly:
    if anomaly.value not in told:
        return anomaly
    outcome, offset = told[anomaly.value]
    places = [each for each in placed if each.name == anomaly.value]
    if outcome is not Outcome.OK:
        parts = ["not acknowledged"]
    else:
        parts = [WITHOUT_OFFSET if offset is None else f"acknowledged at offset {offset}"]
    parts += [f"is at {each}" for each in places[:_MOST_PLACES]]
    if not places:
        parts += [f"in its place {each.name} is at {each}" for each in placed if each.offset == offset]
    return Anomaly(anomaly.kind, f"{anomaly.text}; {'; '.join(parts)}", anomaly.operations, anomaly.value)


def count_bumped(placed: Mapping[Where, Sequence[Placed]]) -> int:
    """Records whose copies are of several producer epochs: the library gave up its sequences, and wrote anew what was
    there already. No broker can tell those copies from new records.
    """
    epochs: dict[tuple[Where, str], set[tuple[int, int]]] = {}
    for target, records in placed.items():
        for each in records:
            producer = (each.header.producer_id, each.header.producer_epoch)
            epochs.setdefault((target, each.name), set()).add(producer)
    return sum(len(producers) > 1 for producers in epochs.values())
