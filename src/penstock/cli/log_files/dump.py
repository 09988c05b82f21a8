"""What is inside the files of a data directory, as documents; and what is wrong with them, as findings.

A tool that looks at damaged files must not trust them: every file is read to the first byte that makes no sense, and
what was readable before it is shown.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.log_files.records import decode_coordinator_record
from penstock.cli.records.output import json_payload
from penstock.core.types import format_topic_id
from penstock.log.formats import names
from penstock.log.formats.checkpoints import decode_offsets
from penstock.log.formats.metadata_files import decode_partition_metadata
from penstock.log.state.leader_epochs import LeaderEpochs
from penstock.log.state.producer_snapshot import decode_snapshot
from penstock.log.storage.scan import CorruptLogError, parse_header
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, is_crc_valid
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError
from penstock.protocol.records import CONTROL_COMMIT, Record, decode_end_marker, iterate_records

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")

Document = dict[str, Any]


class FileProblem(NamedTuple):
    """Something wrong with a file."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class DumpOptions(NamedTuple):
    records: bool = False
    decode: bool = True  # show the records of internal topics as what they mean


class Dump:
    """One file's documents; `findings` fills while they are read."""

    def __init__(self, path: Path, options: DumpOptions) -> None:
        self.path = path
        self.options = options
        self.findings: list[FileProblem] = []
        self.batches = 0
        self.records = 0

    def find(self, text: str) -> None:
        self.findings.append(FileProblem(self.path, text))

    def read(self) -> Iterator[Document]:
        dumper = _choose_dumper(self.path)
        try:
            yield from dumper(self)
        except CorruptLogError as error:
            self.find(f"damaged at position {error.position}: {str(error).rpartition(': ')[2]}")
        except (ValueError, ApiError, struct.error) as error:
            self.find(f"not readable: {error}")


def _choose_dumper(path: Path) -> Callable[[Dump], Iterator[Document]]:
    name = path.name
    for suffix in (names.DELETED, names.CLEANED, names.SWAP):
        name = name.removesuffix(suffix)
    dumper = _BY_NAME.get(name) or _BY_SUFFIX.get(Path(name).suffix)
    if dumper is None:
        known = ", ".join((*_BY_SUFFIX, *_BY_NAME))
        raise UsageError(f"{path} is no file of a log", f"These can be read: {known}.")
    return dumper


# ---- segments


def iterate_segment(path: Path) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """(position, header, batch) to the end of the file, opened for reading only. Checksums are the caller's task."""
    size = path.stat().st_size
    position = 0
    with path.open("rb") as file:
        while position < size:
            head = file.read(HEADER_SIZE)
            header = parse_header(head, 0, position, size, str(path))
            yield position, header, head + file.read(header.size - HEADER_SIZE)
            position += header.size


def _dump_segment(dump: Dump) -> Iterator[Document]:
    next_offset = names.base_offset_of(dump.path.name) or 0
    for position, header, data in iterate_segment(dump.path):
        is_valid = is_crc_valid(data, 0, header)
        dump.batches += 1
        dump.records += header.record_count
        yield batch_document(position, header, is_valid)
        if not is_valid:
            dump.find(f"the checksum of the batch at position {position} does not match")
        elif header.base_offset < next_offset:
            dump.find(f"offset {header.base_offset} at position {position} comes after {next_offset - 1}")
        elif dump.options.records:
            yield from _dump_records(dump, header, data)
        next_offset = max(next_offset, header.next_offset)


def batch_document(position: int, header: BatchHeader, is_valid: bool) -> Document:
    return {
        "type": "batch",
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "codec": _codec_name(header.compression),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
        "valid": is_valid,
    }


def _codec_name(codec: int) -> str:
    return Codec(codec).name.lower() if codec in Codec._value2member_map_ else f"unknown({codec})"


def _dump_records(dump: Dump, header: BatchHeader, data: bytes) -> Iterator[Document]:
    try:
        for record in iterate_records(data):
            yield _record_document(dump, header, record)
    except ApiError as error:
        dump.find(f"the batch at offset {header.base_offset} cannot be read: {error.message}")


def _record_document(dump: Dump, header: BatchHeader, record: Record) -> Document:
    document: Document = {"type": "record", "offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        marker = decode_end_marker(record)
        if marker is not None:
            kind = "commit" if marker.control_type == CONTROL_COMMIT else "abort"
            return {**document, "marker": kind, "coordinator_epoch": marker.coordinator_epoch}
    meaning = decode_coordinator_record(dump.path.parent.name, record) if dump.options.decode else None
    if meaning is not None:
        return {**document, **meaning}
    headers = [{"key": name, **json_payload("value", value)} for name, value in record.headers]
    return {
        **document, **json_payload("key", record.key), **json_payload("value", record.value), "headers": headers,
    }  # fmt: skip


# ---- indexes


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


def read_offset_index(path: Path) -> list[OffsetEntry]:
    """The entries of an index, without the zeros that pad an index in use."""
    base_offset = names.base_offset_of(path.name) or 0
    data = _whole_entries(path.read_bytes(), _OFFSET_ENTRY.size)
    entries = list(_OFFSET_ENTRY.iter_unpack(data))
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return [OffsetEntry(base_offset + relative, position) for relative, position in entries]


def read_time_index(path: Path) -> list[TimeEntry]:
    base_offset = names.base_offset_of(path.name) or 0
    data = _whole_entries(path.read_bytes(), _TIME_ENTRY.size)
    entries = list(_TIME_ENTRY.iter_unpack(data))
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return [TimeEntry(timestamp, base_offset + relative) for timestamp, relative in entries]


def _whole_entries(data: bytes, entry_size: int) -> bytes:
    """Kafka rounds the size of a preallocated index down to whole entries, so what is left over is never an entry."""
    if len(data) % entry_size:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries of {entry_size}")
    return data


def _dump_offset_index(dump: Dump) -> Iterator[Document]:
    previous = OffsetEntry(-1, -1)
    for entry in read_offset_index(dump.path):
        yield {"type": "index", "offset": entry.offset, "position": entry.position}
        if entry.offset <= previous.offset or entry.position <= previous.position:
            dump.find(f"the entry for offset {entry.offset} does not grow")
        previous = entry


def _dump_time_index(dump: Dump) -> Iterator[Document]:
    previous = TimeEntry(-2, -1)
    for entry in read_time_index(dump.path):
        yield {"type": "timeindex", "timestamp": entry.timestamp, "offset": entry.offset}
        if entry.timestamp <= previous.timestamp or entry.offset < previous.offset:
            dump.find(f"the entry for timestamp {entry.timestamp} does not grow")
        previous = entry


def _dump_transaction_index(dump: Dump) -> Iterator[Document]:
    data = _whole_entries(dump.path.read_bytes(), _TRANSACTION_ENTRY.size)
    fields = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    for entry in _TRANSACTION_ENTRY.iter_unpack(data):
        yield {"type": "aborted_transaction", **dict(zip(fields, entry, strict=True))}


# ---- the small files


def _dump_snapshot(dump: Dump) -> Iterator[Document]:
    for entry in decode_snapshot(dump.path.read_bytes()):
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.current_transaction_first_offset,
        }


def _dump_offsets(dump: Dump) -> Iterator[Document]:
    for key, offset in sorted(decode_offsets(dump.path.read_bytes()).items()):
        yield {"type": "checkpoint", "topic": key.topic, "partition": key.partition, "offset": offset}


def _dump_epochs(dump: Dump) -> Iterator[Document]:
    for entry in LeaderEpochs.decode(dump.path.read_bytes()).entries:
        yield {"type": "leader_epoch", "epoch": entry.epoch, "start_offset": entry.start_offset}


def _dump_partition_metadata(dump: Dump) -> Iterator[Document]:
    topic_id = decode_partition_metadata(dump.path.read_bytes())
    yield {"type": "partition_metadata", "topic_id": format_topic_id(topic_id)}


_BY_SUFFIX: dict[str, Callable[[Dump], Iterator[Document]]] = {
    names.LOG: _dump_segment,
    names.OFFSET_INDEX: _dump_offset_index,
    names.TIME_INDEX: _dump_time_index,
    names.TRANSACTION_INDEX: _dump_transaction_index,
    names.SNAPSHOT: _dump_snapshot,
}
_BY_NAME: dict[str, Callable[[Dump], Iterator[Document]]] = {
    names.LEADER_EPOCHS: _dump_epochs,
    names.PARTITION_METADATA: _dump_partition_metadata,
    names.RECOVERY_POINTS: _dump_offsets,
    names.HIGH_WATERMARKS: _dump_offsets,
    names.LOG_START_OFFSETS: _dump_offsets,
    names.CLEANER_OFFSETS: _dump_offsets,
}
