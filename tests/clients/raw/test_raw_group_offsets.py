"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.clients.raw.test_raw_groups import Member, joined, wait_for_coordinator
from tests.clients.raw.wire import Topic, Wire, create_topic, error_of, new_name

MAX_METADATA = 4096
OK = ErrorCode.NONE


@pytest.fixture
def group(wire: Wire) -> str:
    name = new_name("group")
    wait_for_coordinator(wire, name)
    return name


def commit(wire: Wire, group: str, topic: Topic, offset: int = 5, version: int | None = None, **bent: Any) -> ErrorCode:
    partition = OffsetCommitRequestPartition(
        partition_index=bent.pop("partition", 0),
        committed_offset=offset,
        committed_leader_epoch=bent.pop("leader_epoch", -1),
        committed_metadata=bent.pop("metadata", ""),
    )
    wanted = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=[partition])
    asked = {"generation_id_or_member_epoch": -1, "member_id": "", **bent}
    answer = wire(OffsetCommitRequest(group_id=group, topics=[wanted], **asked), version)
    return error_of(answer.topics[0].partitions[0])


def commit_as(member: Member, topic: Topic, **bent: Any) -> ErrorCode:
    asked = {"generation_id_or_member_epoch": member.generation, "member_id": member.id, **bent}
    return commit(member.wire, member.group, topic, **asked)


def committed(wire: Wire, group: str, topic: Topic, version: int | None = None, partition: int = 0) -> Any:
    """The answer for one partition, in the old or the new shape of the request."""
    if version is not None and version < 8:
        old = OffsetFetchRequestTopic(name=topic.name, partition_indexes=[partition])
        return wire(OffsetFetchRequest(group_id=group, topics=[old]), version).topics[0].partitions[0]
    new = OffsetFetchRequestTopics(name=topic.name, topic_id=topic.id, partition_indexes=[partition])
    wanted = OffsetFetchRequestGroup(group_id=group, topics=[new])
    return wire(OffsetFetchRequest(groups=[wanted]), version).groups[0].topics[0].partitions[0]


class TestCommitAndFetch:
    @pytest.mark.parametrize("version", range(2, 11))
    def test_offset_is_fetched_when_committed_in_any_version(
        self, wire: Wire, group: str, topic: Topic, version: int
    ) -> None:
        assert commit(wire, group, topic, 42, version, metadata="note", leader_epoch=0) == OK
        answer = committed(wire, group, topic)
        assert (answer.error_code, answer.committed_offset, answer.metadata) == (0, 42, "note")
        assert answer.committed_leader_epoch == (0 if version >= 6 else -1)

    @pytest.mark.parametrize("version", range(1, 11))
    def test_offset_is_fetched_when_asked_in_any_version(
        self, wire: Wire, group: str, topic: Topic, version: int
    ) -> None:
        commit(wire, group, topic, 42, leader_epoch=0)
        answer = committed(wire, group, topic, version)
        assert (answer.error_code, answer.committed_offset) == (0, 42)
        assert answer.committed_leader_epoch == (0 if version >= 5 else -1)

    @pytest.mark.parametrize("version", range(1, 11))
    def test_offset_is_minus_one_without_error_when_never_committed(
        self, wire: Wire, group: str, topic: Topic, version: int
    ) -> None:
        answer = committed(wire, group, topic, version)
        assert (answer.error_code, answer.committed_offset, answer.committed_leader_epoch) == (0, -1, -1)
        assert answer.metadata == ""

    @pytest.mark.parametrize("version", [2, 7])
    def test_every_offset_is_fetched_when_the_list_is_null(self, wire: Wire, group: str, version: int) -> None:
        topics = sorted(create_topic(wire) for _ in range(2))
        for number, topic in enumerate(topics):
            commit(wire, group, topic, number)
        answer = wire(OffsetFetchRequest(group_id=group, topics=None), version)
        assert answer.error_code == 0
        assert {one.name: one.partitions[0].committed_offset for one in answer.topics} == {
            topic.name: number for number, topic in enumerate(topics)
        }

    @pytest.mark.parametrize("version", [8, 9, 10])
    def test_every_offset_is_fetched_when_the_list_of_a_group_is_null(
        self, wire: Wire, group: str, topic: Topic, version: int
    ) -> None:
        commit(wire, group, topic, 9)
        other = new_name("group")
        wanted = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in (group, other)]
        answer = wire(OffsetFetchRequest(groups=wanted), version)
        assert [(one.group_id, one.error_code, len(one.topics)) for one in answer.groups] == [
            (group, 0, 1),
            (other, 0, 0),
        ]
        (found,) = answer.groups[0].topics
        assert (found.name, found.topic_id) == ((topic.name, bytes(16)) if version < 10 else ("", topic.id))

    def test_unknown_topics_have_no_offset_when_fetched_by_name(self, wire: Wire, group: str) -> None:
        answer = committed(wire, group, Topic(new_name(), bytes(16)), 9)
        assert (answer.error_code, answer.committed_offset) == (0, -1)

    def test_topic_id_is_unknown_when_fetched_and_nobody_has_it(self, wire: Wire, group: str) -> None:
        answer = committed(wire, group, Topic("", b"\x05" * 16), 10)
        assert (error_of(answer), answer.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)

    def test_topic_id_is_unknown_when_committed_and_nobody_has_it(self, wire: Wire, group: str) -> None:
        assert commit(wire, group, Topic("", b"\x05" * 16), version=10) == ErrorCode.UNKNOWN_TOPIC_ID

    def test_partition_is_unknown_when_committed_and_absent(self, wire: Wire, group: str, topic: Topic) -> None:
        assert commit(wire, group, topic, partition=8) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert commit(wire, group, Topic(new_name(), bytes(16)), version=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_metadata_is_too_large_when_above_its_limit(self, wire: Wire, group: str, topic: Topic) -> None:
        assert commit(wire, group, topic, metadata="x" * MAX_METADATA) == OK
        assert commit(wire, group, topic, metadata="x" * (MAX_METADATA + 1)) == ErrorCode.OFFSET_METADATA_TOO_LARGE

    def test_metadata_is_empty_when_committed_as_null(self, wire: Wire, group: str, topic: Topic) -> None:
        assert commit(wire, group, topic, metadata=None) == OK
        assert committed(wire, group, topic).metadata == ""

    @pytest.mark.parametrize("offset", [0, 2**62, -1, -5])
    def test_any_offset_is_stored_when_committed(self, wire: Wire, group: str, topic: Topic, offset: int) -> None:
        assert commit(wire, group, topic, offset) == OK
        assert committed(wire, group, topic).committed_offset == offset

    def test_last_offset_holds_when_committed_twice(self, wire: Wire, group: str, topic: Topic) -> None:
        for offset in (10, 3):
            commit(wire, group, topic, offset)
        assert committed(wire, group, topic).committed_offset == 3


class TestFencing:
    def test_commit_is_accepted_when_the_member_has_the_current_generation(
        self, wire: Wire, group: str, topic: Topic
    ) -> None:
        assert commit_as(joined(wire, group), topic) == OK

    def test_member_is_unknown_when_it_commits_to_a_group_of_others(self, wire: Wire, group: str, topic: Topic) -> None:
        member = joined(wire, group)
        assert commit_as(member, topic, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_generation_is_illegal_when_it_is_not_the_current(self, wire: Wire, group: str, topic: Topic) -> None:
        member = joined(wire, group)
        for generation in (0, 2):
            answer = commit_as(member, topic, generation_id_or_member_epoch=generation)
            assert answer == ErrorCode.ILLEGAL_GENERATION

    def test_member_is_unknown_when_a_stranger_commits_without_one(self, wire: Wire, group: str, topic: Topic) -> None:
        joined(wire, group)
        assert commit(wire, group, topic) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(
        ("version", "error"),
        [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
    )
    def test_commit_of_a_member_is_refused_when_the_group_is_unknown(
        self, wire: Wire, group: str, topic: Topic, version: int, error: ErrorCode
    ) -> None:
        answer = commit(wire, group, topic, 5, version, generation_id_or_member_epoch=1, member_id="x")
        assert answer == error

    def test_commit_must_wait_when_the_group_waits_for_its_leader(self, wire: Wire, group: str, topic: Topic) -> None:
        member = Member(wire, group)
        member.join()
        assert commit_as(member, topic) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_instance_is_fenced_when_its_member_id_is_wrong(self, wire: Wire, group: str, topic: Topic) -> None:
        member = joined(wire, group, group_instance_id="one")
        answer = commit_as(member, topic, member_id="wrong", group_instance_id="one")
        assert answer == ErrorCode.FENCED_INSTANCE_ID

    def test_offset_is_stored_when_the_group_id_is_empty(self, wire: Wire, group: str, topic: Topic) -> None:
        """Consumers without a group may commit, as long as they do not join."""
        assert commit(wire, "", topic) == OK
        assert committed(wire, "", topic).committed_offset == 5
        (result,) = wire(DeleteGroupsRequest(groups_names=[""])).results
        assert error_of(result) == OK


def delete(wire: Wire, group: str, topic: str, partition: int = 0) -> tuple[ErrorCode, list[ErrorCode]]:
    wanted = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
    answer = wire(OffsetDeleteRequest(group_id=group, topics=[wanted]))
    return error_of(answer), [error_of(one) for named in answer.topics for one in named.partitions]


class TestDelete:
    def test_offset_is_gone_when_deleted(self, wire: Wire, group: str, topic: Topic) -> None:
        commit(wire, group, topic)
        commit(wire, group, create_topic(wire))
        assert delete(wire, group, topic.name) == (OK, [OK])
        assert committed(wire, group, topic).committed_offset == -1

    def test_group_is_not_found_when_unknown(self, wire: Wire, group: str, topic: Topic) -> None:
        assert delete(wire, group, topic.name)[0] == ErrorCode.GROUP_ID_NOT_FOUND

    def test_partition_is_unknown_when_absent(self, wire: Wire, group: str, topic: Topic) -> None:
        commit(wire, group, topic)
        assert delete(wire, group, new_name()) == (OK, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        assert delete(wire, group, topic.name, 7) == (OK, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])

    def test_deletion_succeeds_when_there_was_no_offset(self, wire: Wire, group: str, topic: Topic) -> None:
        commit(wire, group, create_topic(wire))
        assert delete(wire, group, topic.name) == (OK, [OK])

    def test_group_is_subscribed_when_its_members_may_read_the_topic(
        self, wire: Wire, group: str, topic: Topic
    ) -> None:
        """The metadata of these members cannot be parsed, so the group counts as subscribed to everything."""
        member = joined(wire, group)
        commit_as(member, topic)
        assert delete(wire, group, topic.name) == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])

    def test_group_is_not_empty_when_it_is_not_of_consumers(self, wire: Wire, group: str, topic: Topic) -> None:
        member = joined(wire, group, protocol_type="connect")
        commit_as(member, topic)
        assert delete(wire, group, topic.name)[0] == ErrorCode.NON_EMPTY_GROUP
