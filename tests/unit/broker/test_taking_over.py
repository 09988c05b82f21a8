"""First batches of producers at a leader that another one made way for."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.partitions.leader_context import LeaderContext
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.taking_over import TAKING_OVER_MS
from penstock.cluster.image import NO_LEADER, PartitionState
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import TopicMetrics
from penstock.log.partition_log import Origin
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.clock import ManualClock
from tests.unit.broker.harness import NODE
from tests.unit.log.support import NOW, TOPIC_ID, Disk, batch, sequenced

OTHER = NODE + 1
BOTH = (NODE, OTHER)


class Rig:
    """A partition of two brokers, and what its producers are told."""

    def __init__(self, directory: Path, leader: int, epoch: int = 0, replicas: tuple[int, ...] = BOTH) -> None:
        self.clock = ManualClock()
        state = PartitionState(0, replicas, replicas, leader, epoch)
        log = Disk(directory / "log", None, LogSettings()).create()
        self.partition = Partition(log, TOPIC_ID, state, TopicMetrics(), LeaderContext(NODE, self.clock, 30_000))

    def led_by(self, leader: int, epochs: int = 1, replicas: tuple[int, ...] = BOTH) -> None:
        former = self.partition.state
        self.partition.adopt(
            former._replace(
                leader=leader,
                leader_epoch=former.leader_epoch + epochs,
                partition_epoch=former.partition_epoch + 1,
                replicas=replicas,
                isr=replicas,
            )
        )

    def write(self, records: bytes) -> ErrorCode:
        try:
            self.partition.append(records, -1, NOW)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def writes(self, *sequences: int) -> list[ErrorCode]:
        return [self.write(sequenced(each)) for each in sequences]


TAKEN, REFUSED = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_later_batch_waits_for_the_first_when_that_may_wait_at_the_former_leader(tmp_path: Path) -> None:
    rig = Rig(tmp_path, OTHER)
    rig.led_by(NODE)
    assert rig.writes(5, 6, 0, 1) == [REFUSED, REFUSED, TAKEN, TAKEN]
    assert rig.partition.log.log_end_offset == 2
    assert rig.writes(5) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]  # the log knows the producer


def test_a_later_batch_is_taken_when_nothing_can_wait_at_the_former_leader_any_more(tmp_path: Path) -> None:
    rig = Rig(tmp_path, OTHER)
    rig.led_by(NODE)
    rig.clock.advance(TAKING_OVER_MS - 1)
    assert rig.writes(5) == [REFUSED]
    rig.clock.advance(1)
    assert rig.writes(5, 6) == [TAKEN, TAKEN]


def test_a_later_batch_is_taken_when_the_log_may_have_lost_what_the_producer_wrote_before(tmp_path: Path) -> None:
    rig = Rig(tmp_path, OTHER)
    rig.led_by(NODE)
    assert rig.writes(0) == [TAKEN]
    rig.partition.log.advance_high_watermark(1)
    rig.partition.log.delete_records_before(1)
    assert rig.write(sequenced(5, producer_id=8)) == TAKEN


def test_others_are_served_when_a_leader_takes_over(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NODE)
    assert rig.writes(0) == [TAKEN]
    rig.led_by(OTHER)
    rig.led_by(NODE)
    assert rig.writes(1) == [TAKEN]  # its producer is known
    assert rig.write(sequenced(3, epoch=1)) == REFUSED  # and this epoch of it is not
    assert rig.write(sequenced(0, epoch=1)) == TAKEN
    assert rig.write(sequenced(2, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.write(batch("no producer")) == TAKEN
    rig.partition.append(sequenced(9, producer_id=8), -1, NOW, Origin.COORDINATOR)


@pytest.mark.parametrize(
    ("start", "steps", "expected"),
    [
        pytest.param((NODE, 0), [], TAKEN, id="the first leader there is"),
        pytest.param((NODE, 4), [], REFUSED, id="a start with several replicas"),
        pytest.param((NODE, 0), [(NODE, 1)], TAKEN, id="it leads on"),
        pytest.param((NODE, 0), [(NODE, 2)], REFUSED, id="an epoch of another was missed"),
        pytest.param((OTHER, 0), [(NO_LEADER, 1), (NODE, 1)], REFUSED, id="nobody led between them"),
    ],
)
def test_a_leader_is_careful_only_where_another_may_have_led(
    tmp_path: Path, start: tuple[int, int], steps: list[tuple[int, int]], expected: ErrorCode
) -> None:
    rig = Rig(tmp_path, *start)
    for leader, epochs in steps:
        rig.led_by(leader, epochs)
    assert rig.writes(5) == [expected]


def test_a_leader_is_careful_when_its_replica_is_the_only_one_left(tmp_path: Path) -> None:
    rig = Rig(tmp_path, OTHER)
    rig.led_by(NODE, replicas=(NODE,))
    assert rig.writes(5) == [REFUSED]


def test_every_producer_is_taken_when_the_only_replica_starts_again(tmp_path: Path) -> None:
    assert Rig(tmp_path, NODE, 4, (NODE,)).writes(5) == [TAKEN]


def test_a_leader_that_was_suspended_is_not_careful_when_nobody_led_meanwhile(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NODE)
    rig.partition.allow_leading(False)
    rig.partition.allow_leading(True)
    assert rig.writes(5) == [TAKEN]
