"""What the cluster rounds judge by themselves: leaders by epoch, and files of replicas."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, cast

from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.records import Record, build_batch
from penstock.testing.history import Anomaly
from proof.cluster.fault_context import FaultContext
from proof.cluster.leaders import LeaderWatch
from proof.cluster.replicas import compare_replicas, find_directory, read_batches
from proof.cluster.report import ClusterReport
from proof.cluster.rounds import ClusterRounds
from proof.copies import find_copies
from proof.fleet.streams import encode_streamed, name_stored

ONE_TOPIC, ANOTHER_TOPIC = b"1" * 16, b"2" * 16


def metadata(leader: int, epoch: int, topic_id: bytes = ONE_TOPIC) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(topics=[MetadataResponseTopic(name="orders", topic_id=topic_id, partitions=[partition])])


def notes_of(*answers: MetadataResponse) -> list[str]:
    watch = LeaderWatch([])
    for answer in answers:
        watch.note(answer)
    return watch.problems


def test_two_leaders_are_noted_when_brokers_name_them_at_one_epoch() -> None:
    assert notes_of(metadata(1, 4), metadata(2, 4)) == ["orders-0 has two leaders at epoch 4: 1 and 2"]


def test_nothing_is_noted_when_epochs_or_topics_differ_or_nobody_leads() -> None:
    assert notes_of(metadata(1, 4), metadata(2, 5), metadata(-1, 5), metadata(2, 4, ANOTHER_TOPIC)) == []


def make_replica(data_dir: Path, segments: dict[str, bytes], epochs: str = "0\n0\n") -> Path:
    directory = data_dir / "orders-0"
    directory.mkdir(parents=True)
    for name, content in segments.items():
        (directory / f"{name}.log").write_bytes(content)
    (directory / "leader-epoch-checkpoint").write_text(epochs)
    return directory


def test_replicas_are_the_same_when_only_their_segments_end_elsewhere(tmp_path: Path) -> None:
    one = make_replica(tmp_path / "1", {"000": b"abc", "003": b"def"}, "0\n2\n1 0\n3 4\n")
    other = make_replica(tmp_path / "2", {"000": b"abcd", "004": b"ef"}, "0\n1\n3 4\n")
    assert compare_replicas([one, other], are_closed=True) == []


def test_replicas_differ_when_a_byte_the_end_or_the_start_of_an_epoch_does(tmp_path: Path) -> None:
    one = make_replica(tmp_path / "1", {"000": b"abcdef"}, "0\n1\n3 4\n")
    other = make_replica(tmp_path / "2", {"000": b"abXdef"}, "0\n1\n3 5\n")
    short = make_replica(tmp_path / "3", {"000": b"abcd"})
    problems = compare_replicas([one, other, short], are_closed=True)
    assert problems == [
        f"{one} and {other} differ at byte 2 of 6 and 6",
        f"{one} and {short} differ at byte 4 of 6 and 4",
        f"epoch 3 begins at 4 in {one} and at 5 in {other}",
    ]
    assert len(compare_replicas([one, other, short], are_closed=False)) == 2


def test_a_replica_is_found_in_any_directory_of_its_broker_when_it_is_there(tmp_path: Path) -> None:
    one = make_replica(tmp_path / "1", {"000": b"abc"})
    (tmp_path / "2").mkdir()
    assert find_directory([tmp_path / "2", tmp_path / "1"], "orders-0") == one
    lacking = find_directory([tmp_path / "2"], "orders-0")
    assert lacking == tmp_path / "2" / "orders-0"
    assert compare_replicas([one, lacking], are_closed=True) != []


def test_a_record_is_found_twice_in_a_replica_when_its_segments_hold_it_under_two_epochs(tmp_path: Path) -> None:
    record = [Record(None, encode_streamed(0, 5))]
    first = build_batch(record, base_offset=8, producer_id=7, producer_epoch=0, base_sequence=3)
    again = build_batch(record, base_offset=9, producer_id=7, producer_epoch=1, base_sequence=0)
    replica = make_replica(tmp_path / "1", {"000": first, "009": again})
    found = find_copies(read_batches(replica), lambda each: name_stored(each.value, each.key))
    assert found == {"record 5 of idempotent": [(8, 7, 0, 3), (9, 7, 1, 0)]}


def test_a_report_is_not_sound_when_any_class_has_a_finding() -> None:
    assert ClusterReport(7, "loopback").is_sound
    report = ClusterReport(7, "loopback")
    report.add([Anomaly("lost-write", "record 3 is gone")])
    assert not report.is_sound
    assert str(report).splitlines()[1] == "  lost: lost-write: record 3 is gone"


class QuietCluster:
    """In sync at once, or never."""

    def __init__(self, problem: str = "") -> None:
        self._problem = problem

    def wait_until_in_sync(self, _timeout_s: float) -> str:
        return self._problem


def strike(report: ClusterReport, problem: str = "") -> list[str]:
    said: list[str] = []
    rounds = ClusterRounds(Path("nowhere"), 1, report.seed, say=said.append, is_on_loopback=True)
    context = FaultContext(cast("Any", QuietCluster(problem)), random.Random(1), [], report.other)
    rounds._strike(report, "kill", lambda _: "kill -9 broker 2", context)
    return said


_TIMES = r"\d\d:\d\d:\d\d\.\d{3} to \d\d:\d\d:\d\d\.\d{3}"


def test_times_of_each_fault_are_told_when_something_is_found() -> None:
    report = ClusterReport(7, "loopback")
    strike(report)
    assert "fault:" not in str(report)
    said = strike(report, "broker 2 does not answer")
    first, second = [line for line in str(report).splitlines() if line.startswith("  fault: ")]
    assert "seed=7" in str(report)
    assert re.fullmatch(f"  fault: {_TIMES} kill: kill -9 broker 2; in sync after 0.0 s", first)
    assert second.endswith("in sync after 0.0 s: broker 2 does not answer")
    # Also as they come, for a test that ends without a report.
    assert [re.fullmatch(f"   2 {_TIMES} kill: .*", line) is not None for line in said] == [True]
