"""What the tests of the log share: a partition on disk, batches to put into it, and ways to look at the result."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.log.directories.partition_directories import make_first_segment
from penstock.log.partition_log import PartitionLog
from penstock.log.recovery.log_loader import LoadRequest, create_log, load_log
from penstock.log.state.replay import read_marker
from penstock.log.storage.files import Files, FileSlice
from penstock.log.storage.open_files import OpenResources
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.protocol.batch import iterate_batches
from penstock.protocol.records import CONTROL_ABORT, EndMarker, Record, build_batch, iterate_records

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000
SMALL = LogSettings(segment_bytes=1000, index_interval_bytes=100)


def batch(*values: str, timestamp: int = NOW, key: bytes | None = b"k", **fields: int | bool) -> bytes:
    records = [Record(key, value.encode(), (), timestamp) for value in values or ("v",)]
    return build_batch(records, **fields)  # type: ignore[arg-type]


def sequenced(sequence: int, count: int = 1, producer_id: int = 7, epoch: int = 0, timestamp: int = NOW) -> bytes:
    return batch(
        *(f"s{sequence + index}" for index in range(count)),
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


class Disk:
    """One partition directory that can be created, closed, crashed and opened again."""

    def __init__(self, directory: Path, files: Files | None = None, settings: LogSettings = SMALL) -> None:
        self.directory = directory
        self.files = files or Files()
        self.settings = settings
        self.deletes = DelayedDeletes(self.files)
        self.recovery_point = 0
        self.log_start_offset = 0
        self.cleaned_end = 0

    def request(self, is_clean: bool, now_ms: int = NOW) -> LoadRequest:
        return LoadRequest(
            topic_partition=PARTITION,
            directory=str(self.directory),
            settings=self.settings,
            resources=OpenResources(self.files),
            now_ms=now_ms,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            cleaned_end=self.cleaned_end,
            log_start_offset=self.log_start_offset,
        )

    def create(self) -> PartitionLog:
        self.directory.mkdir(parents=True, exist_ok=True)
        request = self.request(is_clean=True)
        preallocated_size = self.settings.segment_bytes if self.settings.preallocate else 0
        make_first_segment(self.files, request.directory, request.log_start_offset, preallocated_size=preallocated_size)
        return PartitionLog(create_log(request, TOPIC_ID), self.deletes, request.now_ms)

    def open(self, is_clean: bool = True, now_ms: int = NOW) -> PartitionLog:
        request = self.request(is_clean, now_ms)
        return PartitionLog(load_log(request, set(os.listdir(request.directory))), self.deletes, request.now_ms)

    def reopen(self, log: PartitionLog) -> PartitionLog:
        log.close(clean=True)
        return self.open(is_clean=True)

    def crash(self, log: PartitionLog) -> PartitionLog:
        """As after kill -9: nothing is written on the way down."""
        log.close(clean=False)
        return self.open(is_clean=False)

    def names(self, suffix: str) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir() if path.name.endswith(suffix))

    def log_file(self, base_offset: int = 0) -> Path:
        return self.directory / f"{base_offset:020d}.log"


def append(log: PartitionLog, *batches: bytes, leader_epoch: int = 0, now_ms: int = NOW) -> list[int]:
    """The base offsets; the high watermark follows, as on a broker that is its own in-sync set."""
    offsets = [log.append_as_leader(data, leader_epoch, now_ms).base_offset for data in batches]
    log.advance_high_watermark(log.log_end_offset)
    return offsets


def append_many(log: PartitionLog, count: int, timestamp: int = NOW) -> None:
    append(log, *(batch(f"value-{index:06d}", timestamp=timestamp) for index in range(count)))


def contents(slice_: FileSlice | None) -> bytes:
    return b"" if slice_ is None else slice_.read(0, len(slice_))


def whole_batches(data: bytes) -> Iterable[bytes]:
    """The batches of a fetch answer without the one that was cut off."""
    while len(data) >= 61:
        size = int.from_bytes(data[8:12], "big") + 12
        if size > len(data):
            return
        yield data[:size]
        data = data[size:]


def read_all(log: PartitionLog, start: int | None = None) -> list[tuple[int, str]]:
    """(offset, value) of every record, read as a consumer would."""
    found: list[tuple[int, str]] = []
    offset = log.log_start_offset if start is None else start
    while (slice_ := log.reader.read(offset, 300, log.log_end_offset, at_least_one=True)) is not None:
        for data in whole_batches(contents(slice_)):
            for _, header in iterate_batches(data):
                if not header.is_control:
                    found += [(record.offset, (record.value or b"").decode()) for record in iterate_records(data)]
                offset = header.next_offset
    return [(number, value) for number, value in found if number >= log.log_start_offset]


def transactional(sequence: int, count: int = 1, producer_id: int = 7, epoch: int = 0, timestamp: int = NOW) -> bytes:
    return batch(
        *(f"t{sequence + index}" for index in range(count)),
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def end_transaction(
    log: PartitionLog, is_commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0
) -> int:
    """The marker's offset; the high watermark follows."""
    result = log.append_end_marker(producer_id, epoch, coordinator_epoch, is_commit, 0, NOW)
    log.advance_high_watermark(log.log_end_offset)
    return result.base_offset


def read_committed(log: PartitionLog, start: int, max_bytes: int = 300) -> list[int]:
    """The offsets that a consumer with isolation.level=read_committed delivers, by the rule that consumers follow: from
    an aborted transaction's first offset to the producer's abort marker its transactional batches are passed over.
    """
    delivered: list[int] = []
    offset, limit = start, log.last_stable_offset
    while (slice_ := log.reader.read(offset, max_bytes, limit, at_least_one=True)) is not None:
        pending = [(each.first_offset, each.producer_id) for each in log.reader.aborted_transactions_in(offset, slice_)]
        assert pending == sorted(pending)
        ignored: set[int] = set()
        for data in whole_batches(contents(slice_)):
            ((_, header),) = iterate_batches(data)
            while pending and pending[0][0] <= header.last_offset:
                ignored.add(pending.pop(0)[1])
            if header.is_control:
                if read_marker(data) == EndMarker(CONTROL_ABORT, 0):
                    ignored.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in ignored):
                delivered += [each for each in range(header.base_offset, header.next_offset) if each >= start]
            offset = header.next_offset
    return delivered
