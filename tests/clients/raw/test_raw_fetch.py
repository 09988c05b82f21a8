"""Fetch: limits, long polls, offsets and epochs out of range, incremental sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.clients.raw.wire import (
    Topic,
    Wire,
    build_batch,
    create_topic,
    error_of,
    fetch,
    fetch_request,
    new_name,
    produce_ok,
    produce_request,
    view_batches,
)

# Longer than any test may take: a poll that ends by its own timeout fails the test.
FOREVER_MS = 60_000


def fill(wire: Wire, topic: Topic, batches: int = 5, size: int = 100) -> int:
    """Equal batches of two records; the size of one."""
    batch = build_batch([b"x" * size] * 2)
    for _ in range(batches):
        produce_ok(wire, topic, batch)
    return len(batch)


def offsets(answer: Any) -> list[int]:
    return [batch.base_offset for batch in view_batches(answer.records)]


class TestReading:
    @pytest.mark.parametrize("version", range(4, 19))
    def test_records_and_watermarks_are_answered_when_asked_in_any_version(
        self, wire: Wire, topic: Topic, version: int
    ) -> None:
        fill(wire, topic, 2)
        answer = fetch(wire, topic, version=version)
        assert error_of(answer) == ErrorCode.NONE
        assert offsets(answer) == [0, 2]
        assert (answer.high_watermark, answer.last_stable_offset) == (4, 4)
        assert answer.log_start_offset == (0 if version >= 5 else -1)

    @pytest.mark.parametrize("isolation_level", [0, 1])
    def test_aborted_transactions_are_absent_when_there_are_none(
        self, wire: Wire, topic: Topic, isolation_level: int
    ) -> None:
        fill(wire, topic, 1)
        answer = fetch(wire, topic, isolation_level=isolation_level)
        assert not answer.aborted_transactions
        assert offsets(answer) == [0]

    def test_whole_batch_is_answered_when_the_offset_lies_inside_it(self, wire: Wire, topic: Topic) -> None:
        fill(wire, topic, 3)
        assert offsets(fetch(wire, topic, 3)) == [2, 4]

    def test_records_are_empty_when_the_offset_is_the_end(self, wire: Wire, topic: Topic) -> None:
        fill(wire, topic, 1)
        answer = fetch(wire, topic, 2)
        assert error_of(answer) == ErrorCode.NONE
        assert answer.records is not None
        assert len(answer.records) == 0

    @pytest.mark.parametrize("offset", [3, -1, 2**40])
    def test_offset_is_out_of_range_when_past_the_end_or_negative(self, wire: Wire, topic: Topic, offset: int) -> None:
        fill(wire, topic, 1)
        answer = fetch(wire, topic, offset)
        assert error_of(answer) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)

    def test_offset_is_out_of_range_when_records_before_it_were_deleted(self, wire: Wire, topic: Topic) -> None:
        fill(wire, topic, 3)
        wanted = DeleteRecordsPartition(partition_index=0, offset=3)
        wire(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic.name, partitions=[wanted])], timeout_ms=9000))
        assert error_of(fetch(wire, topic, 2)) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert offsets(fetch(wire, topic, 3)) == [2, 4]

    def test_topic_is_unknown_when_named_and_absent(self, wire: Wire) -> None:
        answer = fetch(wire, Topic(new_name(), bytes(16)), version=12)
        assert error_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.high_watermark == -1

    @pytest.mark.parametrize("topic_id", [b"\x01" * 16, bytes(16)])
    def test_topic_id_is_unknown_when_nobody_has_it(self, wire: Wire, topic_id: bytes) -> None:
        assert error_of(fetch(wire, Topic("", topic_id))) == ErrorCode.UNKNOWN_TOPIC_ID

    def test_partition_is_unknown_when_the_topic_has_fewer(self, wire: Wire, topic: Topic) -> None:
        partition = FetchPartition(partition=4, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic_id=topic.id, partitions=[partition])]
        answer = wire(FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1, session_epoch=-1, topics=topics))
        assert error_of(answer.responses[0].partitions[0]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize(
        ("epoch", "error"),
        [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)],
    )
    def test_leader_epoch_is_compared_when_sent(self, wire: Wire, topic: Topic, epoch: int, error: ErrorCode) -> None:
        fill(wire, topic, 1)
        assert error_of(fetch(wire, topic, current_leader_epoch=epoch)) == error

    def test_records_are_answered_when_the_last_fetched_epoch_agrees(self, wire: Wire, topic: Topic) -> None:
        fill(wire, topic, 2)
        answer = fetch(wire, topic, 2, last_fetched_epoch=0)
        assert (error_of(answer), offsets(answer)) == (ErrorCode.NONE, [2])
        assert answer.diverging_epoch is None

    def test_offset_is_out_of_range_when_the_last_fetched_epoch_never_was(self, wire: Wire, topic: Topic) -> None:
        fill(wire, topic, 2)
        assert error_of(fetch(wire, topic, 2, last_fetched_epoch=3)) == ErrorCode.OFFSET_OUT_OF_RANGE


class TestLimits:
    def test_first_batch_is_whole_when_larger_than_every_limit(self, wire: Wire, topic: Topic) -> None:
        size = fill(wire, topic, 2)
        answer = fetch(wire, topic, max_bytes=1, partition_max_bytes=1)
        assert len(answer.records) == size
        assert offsets(answer) == [0]

    def test_answer_is_cut_when_the_partition_limit_is_reached(self, wire: Wire, topic: Topic) -> None:
        size = fill(wire, topic)
        answer = fetch(wire, topic, partition_max_bytes=2 * size + 10)
        assert len(answer.records) <= 2 * size + 10
        assert offsets(answer) == [0, 2]

    def test_answer_is_cut_when_the_request_limit_is_reached(self, wire: Wire, topic: Topic) -> None:
        size = fill(wire, topic)
        answer = fetch(wire, topic, max_bytes=3 * size + 10)
        assert len(answer.records) <= 3 * size + 10
        assert offsets(answer) == [0, 2, 4]

    @pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"partition_max_bytes": 0}, {"max_bytes": 1}])
    def test_only_one_partition_overruns_when_none_fits(self, wire: Wire, limits: dict[str, int]) -> None:
        topic = create_topic(wire, partitions=3)
        batch = build_batch([b"x" * 1000])
        wire(produce_request(topic, {0: batch, 1: batch, 2: batch}))
        wanted = [
            FetchPartition(
                partition=index, fetch_offset=0, partition_max_bytes=limits.get("partition_max_bytes", 1 << 20)
            )
            for index in (2, 0, 1)
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=limits.get("max_bytes", 1 << 20),
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic.id, partitions=wanted)],
        )
        partitions = wire(request).responses[0].partitions
        assert {one.partition_index: len(one.records or b"") > 0 for one in partitions} == {
            2: True,
            0: False,
            1: False,
        }


class TestLongPoll:
    def test_poll_ends_with_the_record_when_one_arrives(self, connect: Callable[[], Wire], topic: Topic) -> None:
        reader, writer = connect(), connect()
        waiting = reader.connection.send(fetch_request(topic, 0, max_wait_ms=FOREVER_MS, min_bytes=1), 18)
        produce_ok(writer, topic, build_batch())
        assert offsets(reader.connection.receive(waiting).responses[0].partitions[0]) == [0]

    def test_no_poll_is_forgotten_when_records_arrive_in_the_same_moment(
        self, connect: Callable[[], Wire], topic: Topic
    ) -> None:
        """A poll that is about to wait must not miss what is appended just then."""
        reader, writer = connect(), connect()
        for offset in range(200):
            request = fetch_request(topic, offset, max_wait_ms=FOREVER_MS, min_bytes=1)
            waiting = reader.connection.send(request, 18)
            produce_ok(writer, topic, build_batch())
            assert offsets(reader.connection.receive(waiting).responses[0].partitions[0]) == [offset]

    def test_poll_waits_on_when_there_are_fewer_bytes_than_wanted(
        self, connect: Callable[[], Wire], topic: Topic
    ) -> None:
        reader, writer = connect(), connect()
        batch = build_batch([b"x" * 100])
        request = fetch_request(topic, 0, max_wait_ms=FOREVER_MS, min_bytes=2 * len(batch) + 1)
        waiting = reader.connection.send(request, 18)
        for _ in range(3):
            produce_ok(writer, topic, batch)
        assert offsets(reader.connection.receive(waiting).responses[0].partitions[0]) == [0, 1, 2]

    def test_poll_ends_empty_when_its_time_is_up(self, wire: Wire, topic: Topic) -> None:
        assert offsets(fetch(wire, topic, max_wait_ms=1, min_bytes=1)) == []

    def test_poll_ends_at_once_when_enough_is_there(self, wire: Wire, topic: Topic) -> None:
        fill(wire, topic, 1)
        assert offsets(fetch(wire, topic, max_wait_ms=FOREVER_MS, min_bytes=1)) == [0]

    def test_poll_ends_at_once_when_no_bytes_are_wanted(self, wire: Wire, topic: Topic) -> None:
        assert offsets(fetch(wire, topic, max_wait_ms=FOREVER_MS, min_bytes=0)) == []

    def test_poll_ends_at_once_when_a_partition_has_an_error(self, wire: Wire, topic: Topic) -> None:
        answer = fetch(wire, topic, 5, max_wait_ms=FOREVER_MS, min_bytes=1)
        assert error_of(answer) == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_poll_ends_at_once_when_the_request_is_empty(self, wire: Wire) -> None:
        answer = wire(FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1, session_epoch=-1, topics=[]))
        assert answer.responses == []

    def test_requests_behind_a_poll_wait_when_on_the_same_connection(
        self, connect: Callable[[], Wire], topic: Topic
    ) -> None:
        reader, writer = connect(), connect()
        waiting = reader.connection.send(fetch_request(topic, 0, max_wait_ms=FOREVER_MS, min_bytes=1), 18)
        behind = reader.connection.send(fetch_request(topic, 0), 18)
        produce_ok(writer, topic, build_batch())
        assert [offsets(reader.connection.receive(one).responses[0].partitions[0]) for one in (waiting, behind)] == [
            [0],
            [0],
        ]


class TestSessions:
    """Epoch 0 with id 0 opens a session, later epochs ask for what changed, epoch -1 closes."""

    def open(self, wire: Wire, topic: Topic, *, version: int = 18, partitions: tuple[int, ...] = (0,)) -> Any:
        wanted = [FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20) for one in partitions]
        topics = [FetchTopic(topic=topic.name, topic_id=topic.id, partitions=wanted)]
        return wire(
            FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=0, topics=topics), version
        )

    def go_on(self, wire: Wire, session_id: int, epoch: int, version: int = 18, **more: Any) -> Any:
        asked = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": [], **more}
        return wire(FetchRequest(session_id=session_id, session_epoch=epoch, **asked), version)

    @pytest.mark.parametrize("version", [7, 12, 13, 18])
    def test_session_is_given_when_opened(self, wire: Wire, topic: Topic, version: int) -> None:
        answer = self.open(wire, topic, version=version)
        assert answer.error_code == 0
        assert answer.session_id > 0
        assert len(answer.responses[0].partitions) == 1

    def test_no_session_is_given_when_the_epoch_is_final(self, wire: Wire, topic: Topic) -> None:
        assert wire(fetch_request(topic)).session_id == 0

    def test_only_changes_are_answered_when_the_session_goes_on(self, wire: Wire) -> None:
        topic = create_topic(wire, partitions=3)
        session = self.open(wire, topic, partitions=(0, 1, 2)).session_id
        assert self.go_on(wire, session, 1).responses == []
        wire(produce_request(topic, {1: build_batch()}))
        answer = self.go_on(wire, session, 2)
        assert answer.session_id == session
        assert [one.partition_index for one in answer.responses[0].partitions] == [1]

    def test_offset_moves_when_the_session_names_it_anew(self, wire: Wire, topic: Topic) -> None:
        session = self.open(wire, topic).session_id
        fill(wire, topic, 2)
        assert offsets(self.go_on(wire, session, 1).responses[0].partitions[0]) == [0, 2]
        moved = fetch_request(topic, 2).topics
        assert offsets(self.go_on(wire, session, 2, topics=moved).responses[0].partitions[0]) == [2]

    def test_partition_is_left_out_when_forgotten(self, wire: Wire) -> None:
        topic = create_topic(wire, partitions=2)
        session = self.open(wire, topic, partitions=(0, 1)).session_id
        wire(produce_request(topic, {0: build_batch(), 1: build_batch()}))
        forgotten = [ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=[0])]
        answer = self.go_on(wire, session, 1, forgotten_topics_data=forgotten)
        assert [one.partition_index for one in answer.responses[0].partitions] == [1]

    def test_partition_is_added_when_named_later(self, wire: Wire) -> None:
        topic = create_topic(wire, partitions=2)
        session = self.open(wire, topic, partitions=(1,)).session_id
        answer = self.go_on(wire, session, 1, topics=fetch_request(topic).topics)
        assert [one.partition_index for one in answer.responses[0].partitions] == [0]

    @pytest.mark.parametrize("epoch", [2, 5, 2**31 - 1])
    def test_epoch_is_invalid_when_it_is_not_the_next(self, wire: Wire, topic: Topic, epoch: int) -> None:
        session = self.open(wire, topic).session_id
        answer = self.go_on(wire, session, epoch)
        assert error_of(answer) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert answer.responses == []

    def test_epoch_is_still_expected_when_a_wrong_one_came_between(self, wire: Wire, topic: Topic) -> None:
        session = self.open(wire, topic).session_id
        self.go_on(wire, session, 5)
        assert self.go_on(wire, session, 1).error_code == 0

    @pytest.mark.parametrize("version", [7, 18])
    def test_session_is_not_found_when_it_was_never_given(self, wire: Wire, version: int) -> None:
        answer = self.go_on(wire, 123_456_789, 1, version)
        assert error_of(answer) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_session_is_not_found_when_it_was_closed(self, wire: Wire, topic: Topic) -> None:
        session = self.open(wire, topic).session_id
        closing = self.go_on(wire, session, -1)
        assert (closing.error_code, closing.session_id) == (0, 0)
        assert error_of(self.go_on(wire, session, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_new_session_replaces_the_old_when_opened_with_its_id(self, wire: Wire, topic: Topic) -> None:
        session = self.open(wire, topic).session_id
        answer = self.go_on(wire, session, 0, topics=fetch_request(topic).topics)
        assert answer.error_code == 0
        assert answer.session_id not in {0, session}
        assert error_of(self.go_on(wire, session, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_session_is_given_when_no_partition_is_named_yet(self, wire: Wire, topic: Topic) -> None:
        answer = self.go_on(wire, 0, 0)
        assert answer.error_code == 0
        assert answer.session_id > 0
        fill(wire, topic, 1)
        later = self.go_on(wire, answer.session_id, 1, topics=fetch_request(topic).topics)
        assert offsets(later.responses[0].partitions[0]) == [0]

    def test_session_belongs_to_the_broker_when_the_connection_changes(
        self, connect: Callable[[], Wire], topic: Topic
    ) -> None:
        session = self.open(connect(), topic).session_id
        assert self.go_on(connect(), session, 1).error_code == 0

    def test_error_is_answered_every_time_when_a_partition_has_one(self, wire: Wire, topic: Topic) -> None:
        session = self.open(wire, topic, partitions=(0, 9)).session_id
        for epoch in (1, 2):
            (partition,) = self.go_on(wire, session, epoch).responses[0].partitions
            assert (partition.partition_index, error_of(partition)) == (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_poll_waits_for_news_when_the_session_goes_on(self, connect: Callable[[], Wire], topic: Topic) -> None:
        reader, writer = connect(), connect()
        session = self.open(reader, topic).session_id
        request = FetchRequest(session_id=session, session_epoch=1, max_wait_ms=FOREVER_MS, min_bytes=1, topics=[])
        waiting = reader.connection.send(request, 18)
        produce_ok(writer, topic, build_batch())
        assert offsets(reader.connection.receive(waiting).responses[0].partitions[0]) == [0]

    def test_session_topic_id_error_is_answered_when_ids_appear_in_a_session_of_names(
        self, wire: Wire, topic: Topic
    ) -> None:
        session = self.open(wire, topic, version=12).session_id
        answer = self.go_on(wire, session, 1, 13)
        assert error_of(answer) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
