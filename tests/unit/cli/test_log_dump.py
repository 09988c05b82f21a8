from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from penstock.cli.commands.log import dump as dump_command
from penstock.cli.commands.log import expand_paths, format_document
from penstock.cli.errors import CliError, UsageError
from penstock.cli.log_files.directories import directory_table, scan_directory
from penstock.cli.log_files.dump import Document, Dump, DumpOptions, OffsetEntry, TimeEntry, read_offset_index
from penstock.cli.log_files.verify import check_offset_index, check_time_index, verify_indexes
from penstock.core.types import format_topic_id, new_topic_id
from penstock.log.formats.checkpoints import encode_lines
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.state.producer_snapshot import encode_snapshot
from penstock.log.state.producer_state import BatchMetadata, ProducerStateEntry
from penstock.protocol.batch import iterate_batches
from penstock.protocol.codec import encode
from penstock.protocol.compression import Codec
from penstock.protocol.messages.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.offset_commit_value import OffsetCommitValue
from penstock.protocol.records import CONTROL_ABORT, EndMarker, Record, build_batch, build_end_marker

TIMESTAMP = 1_704_067_200_000
FIRST = build_batch([Record(b"a", b"1", (("h", b"x"),), TIMESTAMP), Record(None, None, (), TIMESTAMP + 5)])
SECOND = build_batch([Record(b"\xff", b"2", (), TIMESTAMP + 9)], base_offset=2, codec=Codec.ZSTD, producer_id=7)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(FIRST + SECOND)
    (directory / "00000000000000000000.index").write_bytes(struct.pack(">ii", 2, len(FIRST)) + bytes(80))
    (directory / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", TIMESTAMP + 9, 2))
    return directory


def read(path: Path, *, records: bool = False) -> tuple[list[Document], list[str]]:
    dumped = Dump(path, DumpOptions(records))
    documents = list(dumped.read())
    return documents, [finding.text for finding in dumped.findings]


def log_of(partition: Path) -> Path:
    return partition / "00000000000000000000.log"


def test_batches_are_told_when_segment_is_sound(partition: Path) -> None:
    documents, findings = read(log_of(partition))
    assert findings == []
    assert [(batch["base_offset"], batch["last_offset"], batch["codec"]) for batch in documents] == [
        (0, 1, "none"),
        (2, 2, "zstd"),
    ]
    assert documents[1]["position"] == len(FIRST)
    assert documents[1]["producer_id"] == 7


def test_records_are_told_when_asked_for(partition: Path) -> None:
    documents, _ = read(log_of(partition), records=True)
    records = [document for document in documents if document["type"] == "record"]
    assert records[0] == {
        "type": "record",
        "offset": 0,
        "timestamp": TIMESTAMP,
        "key": "a",
        "value": "1",
        "headers": [{"key": "h", "value": "x"}],
    }
    assert (records[1]["key"], records[1]["value"]) == (None, None)
    assert records[2]["key_base64"] == "/w=="


def test_finding_names_the_position_when_checksum_is_wrong(partition: Path) -> None:
    damaged = bytearray(FIRST + SECOND)
    damaged[len(FIRST) + 65] ^= 1
    log_of(partition).write_bytes(damaged)
    documents, findings = read(log_of(partition), records=True)
    assert [document["valid"] for document in documents if document["type"] == "batch"] == [True, False]
    assert findings == [f"the checksum of the batch at position {len(FIRST)} does not match"]


@pytest.mark.parametrize("size", [1, 60, 61, 70])
def test_what_was_whole_is_shown_when_tail_is_torn(partition: Path, size: int) -> None:
    log_of(partition).write_bytes(FIRST + SECOND[:size])
    documents, findings = read(log_of(partition))
    assert len(documents) == 1
    assert len(findings) == 1
    assert f"position {len(FIRST)}" in findings[0]


def test_finding_when_offsets_go_back(partition: Path) -> None:
    log_of(partition).write_bytes(FIRST + FIRST)
    _, findings = read(log_of(partition))
    assert findings == [f"offset 0 at position {len(FIRST)} comes after 1"]


def test_finding_when_segment_begins_before_its_name(partition: Path) -> None:
    late = partition / "00000000000000000005.log"
    late.write_bytes(FIRST)
    assert read(late)[1] != []


def test_transaction_marker_is_named_when_records_are_told(partition: Path) -> None:
    marker = build_end_marker(EndMarker(CONTROL_ABORT, 3), producer_id=7, producer_epoch=1, timestamp=TIMESTAMP)
    log_of(partition).write_bytes(marker)
    documents, findings = read(log_of(partition), records=True)
    assert findings == []
    assert documents[0]["control"]
    assert (documents[1]["marker"], documents[1]["coordinator_epoch"]) == ("abort", 3)


def test_commit_is_told_when_record_is_of_consumer_offsets(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-7"
    directory.mkdir()
    key = struct.pack(">h", 1) + encode(OffsetCommitKey(group="g", topic="t", partition=3), 0)
    value = struct.pack(">h", 3) + encode(OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1), 3)
    strange = Record(struct.pack(">h", 99), b"?", (), TIMESTAMP)
    log_of(directory).write_bytes(
        build_batch([Record(key, value, (), TIMESTAMP), Record(key, None, (), TIMESTAMP), strange])
    )
    documents, findings = read(log_of(directory), records=True)
    assert findings == []
    assert documents[1]["kind"] == "offset_commit"
    assert documents[1]["key"] == {"group": "g", "topic": "t", "partition": 3}
    assert documents[1]["value"]["offset"] == 42
    assert documents[2]["value"] is None
    assert documents[3]["value"] == "?"


def test_padding_is_left_out_when_index_is_read(partition: Path) -> None:
    assert read_offset_index(partition / "00000000000000000000.index") == [OffsetEntry(2, len(FIRST))]


def test_offsets_count_from_the_name_when_index_is_read(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000001000.index"
    path.write_bytes(struct.pack(">ii", 5, 100))
    assert read_offset_index(path) == [OffsetEntry(1005, 100)]


@pytest.mark.parametrize("name", ["00000000000000000000.index", "00000000000000000000.timeindex"])
def test_finding_when_index_is_cut_or_does_not_grow(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x01" * 7)
    assert "whole number" in read(path)[1][0]
    entry = struct.pack(">ii", 5, 100) if name.endswith("0.index") else struct.pack(">qi", 100, 5)
    path.write_bytes(entry + entry)
    assert "does not grow" in read(path)[1][0]


def test_indexes_agree_when_segment_is_sound(partition: Path) -> None:
    assert verify_indexes(log_of(partition)) == []


def test_finding_when_index_disagrees_with_log() -> None:
    batches = list(iterate_batches(FIRST + SECOND))
    assert check_offset_index([OffsetEntry(1, 0), OffsetEntry(2, len(FIRST))], batches) == []
    assert "no batch begins" in check_offset_index([OffsetEntry(1, 3)], batches)[0]
    assert "0..1" in check_offset_index([OffsetEntry(2, 0)], batches)[0]
    assert check_time_index([TimeEntry(TIMESTAMP + 5, 1), TimeEntry(TIMESTAMP + 9, 2)], batches) == []
    assert "not in the log" in check_time_index([TimeEntry(TIMESTAMP, 3)], batches)[0]
    assert "the batch says" in check_time_index([TimeEntry(TIMESTAMP, 1)], batches)[0]


def test_producers_are_told_when_snapshot_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000003.snapshot"
    entry = ProducerStateEntry(7, 2, -1, TIMESTAMP, -1, [BatchMetadata(9, 2, 0, TIMESTAMP)])
    path.write_bytes(encode_snapshot([entry]))
    documents, findings = read(path)
    assert findings == []
    assert (documents[0]["producer_id"], documents[0]["last_sequence"], documents[0]["last_offset"]) == (7, 9, 2)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    assert len(read(path)[1]) == 1


def test_entries_are_told_when_file_is_a_checkpoint(tmp_path: Path) -> None:
    offsets, epochs = tmp_path / "replication-offset-checkpoint", tmp_path / "leader-epoch-checkpoint"
    offsets.write_bytes(encode_lines(["t 1 42"]))
    epochs.write_bytes(encode_lines(["0 0", "3 17"]))
    assert read(offsets)[0] == [{"type": "checkpoint", "topic": "t", "partition": 1, "offset": 42}]
    assert read(epochs)[0][1] == {"type": "leader_epoch", "epoch": 3, "start_offset": 17}
    offsets.write_bytes(b"0\n5\nt 1 42\n")
    assert len(read(offsets)[1]) == 1


def test_aborted_transactions_are_told_when_transaction_index_is_read(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 7, 1, 5, 2))
    assert read(path)[0][0]["last_offset"] == 5


def test_usage_error_lists_readable_files_when_file_is_of_no_known_kind(tmp_path: Path) -> None:
    stray = tmp_path / "notes.txt"
    stray.write_text("x")
    with pytest.raises(UsageError) as caught:
        read(stray)
    assert ".timeindex" in caught.value.hint


def test_directory_stands_for_its_log_files_when_expanded(partition: Path, tmp_path: Path) -> None:
    (partition / "partition.metadata").write_bytes(b"")
    assert [path.suffix for path in expand_paths([partition])] == [".index", ".log", ".timeindex"]
    with pytest.raises(UsageError):
        expand_paths([tmp_path])
    with pytest.raises(UsageError):
        expand_paths([tmp_path / "missing"])


def test_line_leaves_out_what_says_nothing_when_batch_is_formatted(partition: Path) -> None:
    documents, _ = read(log_of(partition))
    assert format_document(documents[0]) == (
        f"batch position=0 size={len(FIRST)} offsets=0..1 records=2 codec=none "
        "max_timestamp=2024-01-01T00:00:00.005Z leader_epoch=-1 crc=ok"
    )
    assert "producer=7/-1" in format_document(documents[1])


def test_command_fails_with_every_finding_when_verification_does(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump_command([partition], verify=True)
    assert capsys.readouterr().out.count(": ok (") == 3
    (partition / "00000000000000000000.index").write_bytes(struct.pack(">ii", 2, 1))
    with pytest.raises(CliError, match="no batch begins"):
        dump_command([partition], verify=True)
    assert capsys.readouterr().out.count(": damaged (") == 1


def test_file_is_skipped_when_it_goes_after_it_was_listed(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link to nothing is listed and cannot be opened, like a segment that retention removes meanwhile."""
    (partition / "00000000000000000003.log").symlink_to(partition / "gone")
    dump_command([partition], verify=True)
    printed = capsys.readouterr()
    assert printed.out.count(": ok (") == 3
    assert "00000000000000000003.log: skipped, the file was removed meanwhile" in printed.err


def test_every_line_is_a_json_object_when_asked_for(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump_command([partition], records=True, as_json=True)
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [document["type"] for document in documents].count("record") == 3
    assert {Path(document["file"]).suffix for document in documents} == {".log", ".index", ".timeindex"}


def test_partitions_are_told_from_file_names_when_directory_is_scanned(partition: Path) -> None:
    topic_id = new_topic_id()
    (partition / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
    (partition / "00000000000000000100.log").write_bytes(b"x" * 24)
    (partition.parent / "old-topic-3.0123456789abcdef-delete").mkdir()
    (partition.parent / "unrelated").mkdir()
    old, orders = scan_directory(partition.parent, None)
    assert (old.topic, old.partition, old.state, old.segments) == ("old-topic", 3, "to be deleted", 0)
    assert (orders.topic_id, orders.segments, orders.last_segment) == (format_topic_id(topic_id), 2, 100)
    assert scan_directory(partition.parent, frozenset({"orders"})) == [orders]
    assert directory_table([orders]).rows[0][1:4] == ("orders", "0", "2")
