"""Data directories as a broker leaves them, and the ways in which disks, file systems and people damage one file.

A `Template` is a small data directory in memory with everything that a broker writes, and what every partition of it
held while all was well. `damage` changes one file of a copy and says which promises still hold.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.client.connection import Connection
from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.embedded import AsyncBroker
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.formats import names
from penstock.log.partition_log import AbortedTransaction, PartitionLog
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, read_header
from penstock.protocol.compression import Codec
from penstock.protocol.message import Message
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.records import Record, build_batch, iterate_records
from penstock.server.stores import METADATA_FILE

GROUP = "readers"
COMMITTED = 17  # the last of several commits for `plain`
PARTITIONS = 2  # of `plain`; the other topics have one
# Few records and small segments: a case is copied, opened and read in milliseconds.
_SEGMENT_BYTES = 2_600
_INDEX_INTERVAL = 300
BROKER_CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.enable": False,
    "log.retention.ms": -1,  # the records are as old as the numbers in them
}
_FIRST_TIMESTAMP = 1_700_000_000_000


@dataclass
class OriginalLog:
    """What a partition held before the damage: batches by base offset, in their order."""

    batches: dict[int, bytes]
    log_start_offset: int
    log_end_offset: int
    aborted: list[AbortedTransaction]
    by_timestamp: dict[int, int]  # the offset that each timestamp is found at


class Template(NamedTuple):
    name: str
    cluster_id: str
    files: dict[str, bytes]  # by path within the directory
    logs: dict[TopicPartition, OriginalLog]
    settings: dict[str, LogSettings]

    def write_to(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for parent in {path.rpartition("/")[0] for path in self.files} - {""}:
            (directory / parent).mkdir()
        for path, content in self.files.items():
            (directory / path).write_bytes(content)


# ---- building


async def build_templates(scratch: Path, seed: int) -> list[Template]:
    """Data directories after a clean stop, a kill, and a kill with half of everything flushed and checkpointed."""
    templates = []
    for name in ("stopped", "killed", "killed after a flush"):
        directory = scratch / name.replace(" ", "-")
        broker = AsyncBroker(directory, config=BROKER_CONFIG)
        await broker.start()
        try:
            await _Filling(broker, random.Random(seed)).run(flush_half_way=name.endswith("flush"))
            server = broker.server.broker
            logs = {partition.topic_partition: _remember(partition.log) for partition in server.partitions}
            settings = {
                topic_partition.topic: server.metadata.log_settings(topic_partition.topic) for topic_partition in logs
            }
            cluster_id = server.metadata.image.cluster_id
            files = _read_files(directory)  # while it runs and rests: what kill -9 leaves
        finally:
            await broker.stop()
        if name == "stopped":
            files = _read_files(directory)
        templates.append(Template(name, cluster_id, files, logs, settings))
        shutil.rmtree(directory)
    return templates


def _read_files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != names.LOCK
    }


class _Filling:
    """Everything that a broker writes, in two halves."""

    def __init__(self, broker: AsyncBroker, dice: random.Random) -> None:
        self._broker = broker
        self._dice = dice
        self._now_ms = _FIRST_TIMESTAMP
        self._next_producer = 1

    async def run(self, flush_half_way: bool) -> None:
        await self._broker.create_topic("plain", PARTITIONS)
        for name in ("squeezed", "transactional", "cut"):
            await self._broker.create_topic(name)
        await self._broker.create_topic("compacted", config={"cleanup.policy": "compact"})
        server = self._broker.server.broker
        partitions = {tuple(partition.topic_partition): partition for partition in server.partitions}
        for partition in partitions.values():
            _shorten_segments(partition.log)
        for half in range(2):
            for index in range(PARTITIONS):
                self._append_singly(partitions["plain", index], is_idempotent=index > 0)
            for codec in Codec:
                self._append(partitions["squeezed", 0], self._records(12), codec=codec)
            self._append_transactions(partitions["transactional", 0])
            self._append_singly(partitions["cut", 0], is_idempotent=False)
            for _ in range(12):
                self._append(partitions["compacted", 0], self._records(5, keys=9))
            clean_log(partitions["compacted", 0].log.compaction, self._now_ms)
            await self._commit_offsets(COMMITTED - 1 + half)
            if half == 0 and flush_half_way:
                for partition in server.partitions:
                    partition.log.flushing.flush()
                server.directories.write_checkpoints()
        cut = partitions["cut", 0].log
        cut.delete_records_before(cut.log_end_offset // 3)
        if not flush_half_way:
            server.directories.write_checkpoints()

    def _records(self, count: int, keys: int = 1_000) -> list[Record]:
        """Every record is newer than all before it, so that each is found by its own time."""
        records = []
        for _ in range(count):
            self._now_ms += 1
            value = b"%d " % self._now_ms + self._dice.randbytes(20)
            records.append(Record(b"k%d" % self._dice.randrange(keys), value, (), self._now_ms))
        return records

    def _append(self, partition: Partition, records: Sequence[Record], **options: Any) -> None:
        partition.append(build_batch(records, **options), -1, self._now_ms)

    def _append_singly(self, partition: Partition, is_idempotent: bool) -> None:
        sequence = 0
        for _ in range(16):
            records = self._records(self._dice.randrange(1, 6))
            options = {}
            if is_idempotent:
                options = {"producer_id": self._next_producer, "producer_epoch": 0, "base_sequence": sequence}
            self._append(partition, records, **options)
            sequence += len(records)
        self._next_producer += 1

    def _append_transactions(self, partition: Partition) -> None:
        """Two at a time, one of which is aborted, with records outside of any transaction between them."""
        for number in range(6):
            pair = (self._next_producer, self._next_producer + 1)
            self._next_producer += 2
            for producer_id in pair:
                options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
                self._append(partition, self._records(2), is_transactional=True, **options)
            self._append(partition, self._records(2))
            for index, producer_id in enumerate(pair):
                partition.append_end_marker(producer_id, 0, 0, (number + index) % 2 == 0, self._now_ms)

    async def _commit_offsets(self, offset: int) -> None:
        positions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in range(PARTITIONS)
        ]
        topic = OffsetCommitRequestTopic(name="plain", partitions=positions)
        async with await Connection.open("127.0.0.1", self._broker.port) as connection:
            await _until_answered(connection, FindCoordinatorRequest(key=GROUP, key_type=0), 2)
            await _until_answered(connection, FindCoordinatorRequest(key=GROUP, key_type=1), 2)
            await _until_answered(connection, OffsetCommitRequest(group_id=GROUP, topics=[topic]), 8)
            await _until_answered(
                connection, InitProducerIdRequest(transactional_id=GROUP, transaction_timeout_ms=10_000), 4
            )


async def _until_answered(connection: Connection, request: Message, version: int) -> None:
    """Coordinators need a moment after their topic came to be."""
    while True:
        answer = await connection.request(request, version)
        if not getattr(answer, "error_code", 0) and not _commit_errors(answer):
            return
        await asyncio.sleep(0.005)


def _commit_errors(answer: Any) -> bool:
    topics = getattr(answer, "topics", None) or ()
    return any(partition.error_code for topic in topics for partition in topic.partitions)


def _shorten_segments(log: PartitionLog) -> None:
    """Below what a topic's configuration accepts; for this process alone, a later start does not care."""
    log.update_settings(
        dataclasses.replace(log.settings, segment_bytes=_SEGMENT_BYTES, index_interval_bytes=_INDEX_INTERVAL)
    )


def _remember(log: PartitionLog) -> OriginalLog:
    """From the files, not through the log: what lies before the log start may come back when that is forgotten."""
    batches: dict[int, bytes] = {}
    times: dict[int, int] = {}
    for path in sorted(log.directory.glob(f"*{names.LOG}")):
        for header, batch in whole_batches(path.read_bytes()):
            batches[header.base_offset] = batch
            if not header.is_control and not log.topic_partition.topic.startswith("__"):
                times |= {record.timestamp: record.offset for record in iterate_records(batch)}
    return OriginalLog(
        batches, log.log_start_offset, log.log_end_offset, log.reader.aborted_transactions(0, log.log_end_offset), times
    )


def whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """What a consumer finds in an answer, which may end in the middle of a batch."""
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        if header.size < HEADER_SIZE or position + header.size > len(data):
            return
        yield header, data[position : position + header.size]
        position += header.size


# ---- damaging


class Damage(NamedTuple):
    """What was done to one file."""

    kind: str
    path: str
    first_byte: int  # the first that differs; 0 where the whole file does
    other: str = ""  # the file that it was exchanged with, or copied to

    @property
    def suffix(self) -> str:
        """`.log` and the like for a segment's files, the whole name for others."""
        name = self.path.rpartition("/")[2]
        return "." + name.rpartition(".")[2] if names.base_offset_of(name) is not None else name

    @property
    def touched(self) -> set[TopicPartition]:
        directories = {
            names.parse_partition_directory(path.rpartition("/")[0]) for path in (self.path, self.other) if "/" in path
        }
        return {topic_partition for topic_partition in directories if topic_partition is not None}

    def __str__(self) -> str:
        return f"{self.path}: {self.kind} from byte {self.first_byte} {self.other}".rstrip()


Change = Callable[[random.Random, bytes], bytes]


def _flip_bit(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _overwrite(dice: random.Random, data: bytes) -> bytes:
    start = dice.randrange(len(data))
    size = min(dice.choice((1, 4, 16, 200, 4_096)), len(data) - start)
    return data[:start] + dice.choice((dice.randbytes(size), bytes(size), b"\xff" * size)) + data[start + size :]


def _truncate(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.choice((dice.randrange(len(data)), max(len(data) - dice.randrange(1, 80), 0)))]


def _zero_tail(dice: random.Random, data: bytes) -> bytes:
    size = dice.randrange(1, len(data) + 1)
    return data[:-size] + bytes(size)


def _append_garbage(dice: random.Random, data: bytes) -> bytes:
    size = dice.choice((1, 7, 34, 61, 200, 4_096))
    return data + dice.choice((dice.randbytes(size), bytes(size), (data * (size // max(len(data), 1) + 1))[:size]))


def _drop_middle(dice: random.Random, data: bytes) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + data[start + dice.choice((1, 8, 12, 34, 500)) :]


def _set_version(dice: random.Random, data: bytes) -> bytes:
    """The first number of a file, be it text or binary, is its version in most of them."""
    if data[:1].isdigit():
        return dice.choice((b"1", b"7", b"-1", b"x", b"")) + data[1:]
    if b"version" in data[:20]:
        return data.replace(b"0", b"9", 1) if b"0" in data[:20] else data.replace(b"1", b"9", 1)
    return struct.pack(">h", dice.choice((-1, 0, 2, 3, 32_767))) + data[2:]


def _change_number(dice: random.Random, data: bytes) -> bytes:
    """A digit of a text, a word of anything else: the file stays well-formed."""
    digits = [index for index, byte in enumerate(data) if byte in b"0123456789"]
    if len(digits) > len(data) // 4:
        index = dice.choice(digits)
        return data[:index] + b"%d" % dice.randrange(10) + data[index + 1 :]
    start = dice.randrange(0, len(data), 4)
    return data[:start] + struct.pack(">I", dice.choice((0, 1, 1 << 20, 1 << 31))) + data[start + 4 :]


CHANGES: dict[str, Change] = {
    "bit flipped": _flip_bit,
    "range overwritten": _overwrite,
    "cut": _truncate,
    "tail of zeros": _zero_tail,
    "garbage appended": _append_garbage,
    "middle dropped": _drop_middle,
    "version changed": _set_version,
    "number changed": _change_number,
    "emptied": lambda dice, data: b"",
}
_WHOLE = ("deleted", "exchanged", "copied", "a directory")


def damage(dice: random.Random, template: Template, directory: Path, paths: Sequence[str]) -> Damage:
    """Changes one of `paths` in the copy of `template` at `directory`. Every kind of file comes up as often."""
    while True:
        by_suffix: dict[str, list[str]] = {}
        for path in paths:
            by_suffix.setdefault(Damage("", path, 0).suffix, []).append(path)
        path = dice.choice(by_suffix[dice.choice(sorted(by_suffix))])
        kind = dice.choice((*CHANGES, *CHANGES, *_WHOLE))
        content = template.files[path]
        done = _change(dice, template, directory, path, kind) if content or kind not in CHANGES else None
        if done is not None:
            return done


def _change(dice: random.Random, template: Template, directory: Path, path: str, kind: str) -> Damage | None:
    target, content = directory / path, template.files[path]
    if kind in CHANGES:
        changed = CHANGES[kind](dice, content)
        if changed == content:
            return None
        target.write_bytes(changed)
        return Damage(kind, path, _first_difference(content, changed))
    if kind == "deleted":
        target.unlink()
        return Damage(kind, path, 0)
    if kind == "a directory":
        target.unlink()
        target.mkdir()
        return Damage(kind, path, 0)
    other = _find_other(dice, template, path) if kind == "exchanged" else _name_copy(dice, template, path)
    if other is None:
        return None
    if kind == "exchanged":
        target.write_bytes(template.files[other])
        (directory / other).write_bytes(content)
    else:
        (directory / other).write_bytes(content)
    return Damage(kind, path, 0, other)


def _find_other(dice: random.Random, template: Template, path: str) -> str | None:
    """Another file of the same kind, but no log of another partition: every byte of that would be right."""
    mine = Damage("", path, 0)
    others = [
        other
        for other in template.files
        if other != path
        and Damage("", other, 0).suffix == mine.suffix
        and template.files[other] != template.files[path]
    ]
    if mine.suffix in _NAMED_BY_NOBODY:
        others = [other for other in others if other.rpartition("/")[0] == path.rpartition("/")[0]]
    return dice.choice(others) if others else None


# Nothing in these says whose they are, neither in Kafka nor here, and nothing would show that they are not ours.
_NAMED_BY_NOBODY = (names.LOG, names.SNAPSHOT, names.TRANSACTION_INDEX)


def _name_copy(dice: random.Random, template: Template, path: str) -> str | None:
    """A second copy under the name that another base offset would give it, as a careless restore leaves it."""
    folder, _, name = path.rpartition("/")
    base_offset = names.base_offset_of(name)
    if base_offset is None:
        return None
    copy = f"{base_offset + dice.choice((1, 7, 1_000)):020d}{Damage('', path, 0).suffix}"
    other = f"{folder}/{copy}"
    return None if other in template.files else other


def _first_difference(before: bytes, after: bytes) -> int:
    for index, (old_byte, new_byte) in enumerate(zip(before, after, strict=False)):
        if old_byte != new_byte:
            return index
    return min(len(before), len(after))


def is_store(path: str) -> bool:
    return path.startswith(METADATA_FILE)
