"""The picture of a cluster: what follows from its parts, and how old they are."""

from __future__ import annotations

from dataclasses import replace

from penstock.admin.state.partitions import NO_LEADER
from penstock.admin.state.parts import Failure, Part, PartRead
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.admin.pictured import broker, partition, pictured


def test_partitions_are_found_by_what_they_lack_when_a_broker_is_gone() -> None:
    state = pictured(
        [
            partition(0, 1, [1, 2]),
            partition(1, 2, [1, 2, 3], [2, 3]),
            partition(2, NO_LEADER, [4], [4]),
            partition(3, 1, [1, 2], [1])._replace(adding=(2,)),
        ]
    )
    assert [each.partition for each in state.offline] == [2]
    assert [each.partition for each in state.under_replicated] == [1]
    assert [each.partition for each in state.moving] == [3]
    found = state.partition(TopicPartition("t", 1))
    assert found is not None
    assert state.minimum(found) == 2
    assert state.partition(TopicPartition("t", 9)) is None
    assert state.partition(TopicPartition("u", 0)) is None


def test_minimum_is_not_known_when_the_setting_was_not_read() -> None:
    state = pictured([partition(0, 1, [1])], min_in_sync=None)
    assert state.minimum(state.partitions[0]) is None


def test_part_has_its_own_age_when_it_was_read_before_the_others() -> None:
    parts = {Part.TOPICS: PartRead(10.0), Part.DIRECTORIES: PartRead(4.0)}
    state = replace(pictured(), parts=parts)
    assert state.age_s(Part.TOPICS, 11.0) == 1.0
    assert state.age_s(Part.DIRECTORIES, 11.0) == 7.0
    assert state.age_s(Part.GROUPS, 11.0) is None


def test_failure_has_its_reason_when_a_broker_does_not_answer() -> None:
    silent = Failure.of("directories", TimeoutError("no answer within 3 s"), 2)
    refused = Failure.of("groups", ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), 1)
    parts = {Part.DIRECTORIES: PartRead(0.0, (silent,)), Part.GROUPS: PartRead(0.0, (refused,))}
    state = replace(pictured(), parts=parts)
    assert state.failures == (silent, refused)
    assert str(silent) == "directories: no answer within 3 s"
    assert (silent.code, refused.code) == (None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert refused.reason


def test_controller_has_answered_when_it_refused_to_tell_of_moves() -> None:
    refused = Failure("moves", "not for you", 1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    silent = Failure("moves", "timed out", 1)
    assert replace(pictured(), parts={Part.MOVES: PartRead(0.0, (refused,))}).controller_silence == ""
    assert replace(pictured(), parts={Part.MOVES: PartRead(0.0, (silent,))}).controller_silence == "timed out"


def test_broker_is_alive_when_it_is_not_silent() -> None:
    assert broker(1).is_alive
    assert not broker(1, silence="timed out").is_alive
