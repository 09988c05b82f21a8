"""Single brokers: what each tells of the cluster, and requests of the caller's own."""

from __future__ import annotations

import asyncio

from penstock.admin import ErrorCode, Part
from penstock.client.connection.frames import ConnectionClosedError
from penstock.protocol.messages import list_partition_reassignments as moves
from penstock.protocol.messages import metadata as described
from tests.unit.admin.scripted import ScriptedBrokers

FIRST, SECOND = ("host", 1), ("host", 2)


def telling(*brokers: int, controller: int = 1, in_sync: list[int] | None = None) -> described.MetadataResponse:
    row = described.MetadataResponsePartition(leader_id=1, replica_nodes=[1, 2], isr_nodes=in_sync or [1, 2])
    return described.MetadataResponse(
        brokers=[described.MetadataResponseBroker(node_id=each, host="host", port=each) for each in brokers],
        controller_id=controller,
        cluster_id="told",
        topics=[described.MetadataResponseTopic(name="orders", partitions=[row])],
    )


def test_each_broker_tells_its_own_when_they_do_not_agree() -> None:
    brokers = ScriptedBrokers({described.MetadataRequest: [telling(1), telling(1, 2, controller=3)]})
    views = asyncio.run(brokers.admin.nodes.views([FIRST, SECOND])).found
    assert [(list(view.brokers), view.controller_id) for view in views.values()] == [([1], 1), ([1, 2], None)]
    assert brokers.ways == ["any 1", "any 2"]
    assert list(views[FIRST].parts) == [Part.TOPICS]


def test_others_tell_when_one_does_not_answer() -> None:
    brokers = ScriptedBrokers({described.MetadataRequest: telling(1)})
    brokers.refusing = {2}
    views, failures = asyncio.run(brokers.admin.nodes.views([FIRST, SECOND]))
    assert list(views) == [FIRST]
    assert [str(each) for each in failures] == ["broker at host:2: Connection refused"]


def test_question_is_asked_again_when_the_kept_connection_is_lost() -> None:
    brokers = ScriptedBrokers({described.MetadataRequest: [ConnectionClosedError("lost"), telling(1)]})
    views = asyncio.run(brokers.admin.nodes.views([FIRST])).found
    assert list(views[FIRST].topics) == ["orders"]


def test_replica_does_not_lag_when_the_broker_tells_that_a_move_adds_it() -> None:
    row = moves.OngoingPartitionReassignment(partition_index=0, replicas=[1, 2], adding_replicas=[2])
    listed = moves.ListPartitionReassignmentsResponse(
        topics=[moves.OngoingTopicReassignment(name="orders", partitions=[row])]
    )
    brokers = ScriptedBrokers(
        {described.MetadataRequest: telling(1, 2, in_sync=[1]), moves.ListPartitionReassignmentsRequest: listed}
    )
    view = asyncio.run(brokers.admin.nodes.views([SECOND])).found[SECOND]
    assert view.under_replicated == ()
    assert brokers.ways == ["any 2", "any 2"]


def test_replica_lags_when_nobody_can_tell_of_moves() -> None:
    refused = moves.ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    brokers = ScriptedBrokers(
        {described.MetadataRequest: telling(1, 2, in_sync=[1]), moves.ListPartitionReassignmentsRequest: refused}
    )
    view = asyncio.run(brokers.admin.nodes.views([SECOND])).found[SECOND]
    assert [each.lagging for each in view.under_replicated] == [(2,)]
    assert [each.code for each in view.failures_of(Part.MOVES)] == [ErrorCode.NOT_CONTROLLER]


def test_request_goes_to_the_broker_at_the_address_when_there_is_no_operation_for_it() -> None:
    brokers = ScriptedBrokers({described.MetadataRequest: telling(1, 2)})
    answer = asyncio.run(brokers.admin.nodes.ask(SECOND, described.MetadataRequest(topics=[])))
    assert answer.cluster_id == "told"
    assert brokers.ways == ["any 2"]
