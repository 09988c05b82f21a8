"""DescribeQuorum, every version: the controller is the only voter."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from penstock.protocol.messages.metadata import MetadataRequest
from tests.clients.raw.wire import Wire, create_topic


def asking(topic: str, index: int = 0) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=index)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=[partition])])


@pytest.mark.parametrize("version", range(3))
def test_controller_is_leader_and_only_voter_when_a_client_asks_for_the_quorum(wire: Wire, version: int) -> None:
    controller_id = wire(MetadataRequest(topics=[])).controller_id
    answer = wire(asking("__cluster_metadata"), version)
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert (answer.error_code, partition.error_code, partition.leader_id) == (0, 0, controller_id)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (controller_id, partition.high_watermark)
    assert partition.observers == []
    assert (voter.last_caught_up_timestamp > 0) == (version > 0)
    assert [node.node_id for node in answer.nodes] == [controller_id] * (version > 1)


def test_watermark_rises_when_the_metadata_changes(wire: Wire) -> None:
    before = wire(asking("__cluster_metadata")).topics[0].partitions[0].high_watermark
    create_topic(wire)
    assert wire(asking("__cluster_metadata")).topics[0].partitions[0].high_watermark > before


@pytest.mark.parametrize(("topic", "index"), [("orders", 0), ("__cluster_metadata", 1)])
def test_partition_is_unknown_when_it_is_not_that_of_the_metadata(wire: Wire, topic: str, index: int) -> None:
    answer = wire(asking(topic, index))
    assert answer.error_code == 0
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
