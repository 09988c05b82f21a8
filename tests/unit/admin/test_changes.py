"""Records, directories, brokers and commits: which broker is asked, and what each refusal means."""

from __future__ import annotations

import asyncio

import pytest

from penstock.admin import (
    LAST,
    ApiError,
    CommittedOffset,
    ConfigPlace,
    ErrorCode,
    NewTopic,
    ReplicaKey,
    TopicPartition,
)
from penstock.admin.changes.topics import creation
from penstock.protocol.messages import alter_replica_log_dirs as directories
from penstock.protocol.messages import delete_groups as deleted_groups
from penstock.protocol.messages import delete_records as records
from penstock.protocol.messages import incremental_alter_configs as configs
from penstock.protocol.messages import list_groups as listed
from penstock.protocol.messages import offset_commit as commits
from penstock.protocol.messages import offset_delete as deleted_commits
from penstock.protocol.messages import unregister_broker as unregistered
from tests.unit.admin.scripted import ScriptedBrokers

FIRST_PLACE, SECOND_PLACE = TopicPartition("t", 0), TopicPartition("t", 1)


# ------------------------------------------------------------------------------------ records


def deleted(index: int, code: int = 0) -> records.DeleteRecordsResponse:
    row = records.DeleteRecordsPartitionResult(partition_index=index, low_watermark=5, error_code=code)
    return records.DeleteRecordsResponse(topics=[records.DeleteRecordsTopicResult(name="t", partitions=[row])])


def test_each_leader_is_asked_when_records_are_deleted() -> None:
    refusal = deleted(1, ErrorCode.OFFSET_OUT_OF_RANGE)
    brokers = ScriptedBrokers({records.DeleteRecordsRequest: [deleted(0), refusal]}, {"t": 2}, brokers=(1, 2))
    refused = asyncio.run(brokers.admin.delete_records({FIRST_PLACE: 5, SECOND_PLACE: LAST}))
    assert {place: error.code for place, error in refused.items()} == {SECOND_PLACE: ErrorCode.OFFSET_OUT_OF_RANGE}
    assert brokers.ways == ["node 1", "node 2"]
    offsets = [row.offset for _, request in brokers.sent for topic in request.topics for row in topic.partitions]
    assert offsets == [5, -1]


def test_leader_is_followed_when_it_moves_while_records_are_deleted() -> None:
    answers = [deleted(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), deleted(0)]
    brokers = ScriptedBrokers({records.DeleteRecordsRequest: [*answers]}, {"t": 1})
    assert asyncio.run(brokers.admin.delete_records({FIRST_PLACE: 5})) == {}
    assert brokers.ways == ["node 1", "leader of t-0"]
    assert brokers.forgotten == [FIRST_PLACE]


def test_partition_is_refused_by_itself_when_its_leader_is_silent_or_it_is_not_there() -> None:
    brokers = ScriptedBrokers({records.DeleteRecordsRequest: deleted(0)}, {"t": 2}, brokers=(1, 2))
    brokers.refusing = {2}
    absent = TopicPartition("t", 9)
    refused = asyncio.run(brokers.admin.delete_records({FIRST_PLACE: 5, SECOND_PLACE: 5, absent: 5}))
    assert {place: error.code for place, error in refused.items()} == {
        SECOND_PLACE: ErrorCode.NETWORK_EXCEPTION,
        absent: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert refused[SECOND_PLACE].message == "Connection refused"


# ------------------------------------------------------------------------------------ directories, brokers


def test_each_broker_moves_its_own_replicas_when_directories_change() -> None:
    row = directories.AlterReplicaLogDirPartitionResult(partition_index=0, error_code=ErrorCode.LOG_DIR_NOT_FOUND)
    answer = directories.AlterReplicaLogDirsResponse(
        results=[directories.AlterReplicaLogDirTopicResult(topic_name="t", partitions=[row])]
    )
    brokers = ScriptedBrokers({directories.AlterReplicaLogDirsRequest: answer}, brokers=(1, 2))
    brokers.refusing = {2}
    first, second = ReplicaKey("t", 0, 1), ReplicaKey("t", 1, 2)
    refused = asyncio.run(brokers.admin.move_directories({first: "/a", second: "/b"}))
    assert {replica: error.code for replica, error in refused.items()} == {
        first: ErrorCode.LOG_DIR_NOT_FOUND,
        second: ErrorCode.NETWORK_EXCEPTION,
    }
    ((way, request),) = brokers.sent
    assert way == "node 1"
    assert [(each.path, [topic.partitions for topic in each.topics]) for each in request.dirs] == [("/a", [[0]])]


def test_broker_is_an_error_when_it_is_not_registered() -> None:
    refusal = unregistered.UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    brokers = ScriptedBrokers(
        {unregistered.UnregisterBrokerRequest: [unregistered.UnregisterBrokerResponse(), refusal]}
    )
    asyncio.run(brokers.admin.unregister_broker(7))
    with pytest.raises(ApiError) as caught:
        asyncio.run(brokers.admin.unregister_broker(7))
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert [(way, request.broker_id) for way, request in brokers.sent] == [("controller", 7)] * 2


# ------------------------------------------------------------------------------------ settings, groups


def altered(place: ConfigPlace) -> configs.IncrementalAlterConfigsResponse:
    row = configs.AlterConfigsResourceResponse(resource_type=place.kind, resource_name=place.name)
    return configs.IncrementalAlterConfigsResponse(responses=[row])


def test_outcomes_of_the_others_are_there_when_one_broker_does_not_take_its_settings() -> None:
    topic, first, second = ConfigPlace.topic("t"), ConfigPlace.broker(1), ConfigPlace.broker(2)
    brokers = ScriptedBrokers(
        {configs.IncrementalAlterConfigsRequest: [altered(topic), altered(second)]}, brokers=(1, 2)
    )
    brokers.refusing = {1}
    refused = asyncio.run(brokers.admin.alter_configs({place: {"k": "v"} for place in (first, second, topic)}))
    assert {place: error.code for place, error in refused.items()} == {first: ErrorCode.NETWORK_EXCEPTION}
    assert brokers.ways == ["controller", "node 2"]


def test_settings_of_brokers_have_their_outcome_when_the_controller_is_away() -> None:
    topic, broker = ConfigPlace.topic("t"), ConfigPlace.broker(1)
    brokers = ScriptedBrokers({configs.IncrementalAlterConfigsRequest: [ConnectionError("gone"), altered(broker)]})
    refused = asyncio.run(brokers.admin.alter_configs({topic: {"k": "v"}, broker: {"k": "v"}}))
    assert {place: error.code for place, error in refused.items()} == {topic: ErrorCode.NETWORK_EXCEPTION}


def listed_groups(*group_ids: str) -> listed.ListGroupsResponse:
    return listed.ListGroupsResponse(groups=[listed.ListedGroup(group_id=each) for each in group_ids])


def test_groups_of_the_other_broker_are_deleted_when_one_coordinator_is_gone() -> None:
    deletion = deleted_groups.DeleteGroupsResponse(results=[deleted_groups.DeletableGroupResult(group_id="h")])
    brokers = ScriptedBrokers(
        {
            listed.ListGroupsRequest: [listed_groups("g"), listed_groups("h")],
            deleted_groups.DeleteGroupsRequest: [ConnectionError("gone"), deletion],
        },
        brokers=(1, 2),
    )
    refused = asyncio.run(brokers.admin.delete_groups(["g", "h", "no"]))
    assert {group_id: error.code for group_id, error in refused.items()} == {
        "g": ErrorCode.NETWORK_EXCEPTION,
        "no": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_group_is_not_called_absent_when_a_broker_does_not_list_its_own() -> None:
    brokers = ScriptedBrokers({listed.ListGroupsRequest: listed_groups()}, brokers=(1, 2))
    brokers.refusing = {2}
    refused = asyncio.run(brokers.admin.delete_groups(["g"]))
    assert (refused["g"].code, refused["g"].message) == (
        ErrorCode.NETWORK_EXCEPTION,
        "broker 2: Connection refused",
    )


# ------------------------------------------------------------------------------------ commits


def committed(*codes: int) -> commits.OffsetCommitResponse:
    rows = [
        commits.OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    ]
    return commits.OffsetCommitResponse(topics=[commits.OffsetCommitResponseTopic(name="t", partitions=rows)])


def test_coordinator_records_commits_when_the_group_has_no_members() -> None:
    brokers = ScriptedBrokers({commits.OffsetCommitRequest: committed(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    offsets: dict[TopicPartition, int | CommittedOffset] = {SECOND_PLACE: CommittedOffset(7, 3, "note"), FIRST_PLACE: 5}
    refused = asyncio.run(brokers.admin.commits.alter("g", offsets))
    assert {place: error.code for place, error in refused.items()} == {
        SECOND_PLACE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    ((way, request),) = brokers.sent
    assert way == "coordinator of group g"
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    rows = [
        (row.committed_offset, row.committed_leader_epoch, row.committed_metadata)
        for topic in request.topics
        for row in topic.partitions
    ]
    assert rows == [(5, -1, ""), (7, 3, "note")]


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH]
)
def test_refusal_names_the_members_when_the_group_has_some(code: ErrorCode) -> None:
    brokers = ScriptedBrokers({commits.OffsetCommitRequest: committed(code)})
    refused = asyncio.run(brokers.admin.commits.alter("g", {FIRST_PLACE: 5}))
    assert (refused[FIRST_PLACE].code, refused[FIRST_PLACE].message) == (code, "group g has members")


def test_commits_are_deleted_by_partition_when_a_member_reads_one_topic() -> None:
    rows = [
        deleted_commits.OffsetDeleteResponsePartition(partition_index=0),
        deleted_commits.OffsetDeleteResponsePartition(
            partition_index=1, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        ),
    ]
    answer = deleted_commits.OffsetDeleteResponse(
        topics=[deleted_commits.OffsetDeleteResponseTopic(name="t", partitions=rows)]
    )
    brokers = ScriptedBrokers({deleted_commits.OffsetDeleteRequest: answer})
    refused = asyncio.run(brokers.admin.commits.delete("g", [FIRST_PLACE, SECOND_PLACE]))
    assert {place: error.code for place, error in refused.items()} == {
        SECOND_PLACE: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    }
    assert brokers.ways == ["coordinator of group g"]


def test_deleting_commits_is_an_error_when_there_is_no_such_group() -> None:
    answer = deleted_commits.OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    brokers = ScriptedBrokers({deleted_commits.OffsetDeleteRequest: answer})
    with pytest.raises(ApiError) as caught:
        asyncio.run(brokers.admin.commits.delete("g", [FIRST_PLACE]))
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


# ------------------------------------------------------------------------------------ topics


def test_partitions_keep_their_numbers_when_replicas_are_given_by_them() -> None:
    topics = [NewTopic("t", 9, 9, replicas=[[2, 1], [1, 2]]), NewTopic("u", 9, 9, replicas={2: [1], 1: [2]})]
    first, second = creation(topics).topics
    assert [(row.partition_index, row.broker_ids) for row in first.assignments] == [(0, [2, 1]), (1, [1, 2])]
    assert [(row.partition_index, row.broker_ids) for row in second.assignments] == [(1, [2]), (2, [1])]
    assert {(row.num_partitions, row.replication_factor) for row in (first, second)} == {(-1, -1)}
