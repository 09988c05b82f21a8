"""Quotas in a cluster: set at any broker, kept by the controller, held by all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock
from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.clients.quotas import set_quotas
from tests.clients.support import eventually, new_name

CLIENT_ID = "greedy"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[str]]:
    """Of each broker, the controller first."""
    with penstock.Cluster(3, store="memory") as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        found = ask(addresses[0], DescribeClusterRequest(), 0)
        assert isinstance(found, DescribeClusterResponse)
        brokers = sorted(found.brokers, key=lambda each: (each.broker_id != found.controller_id, each.broker_id))
        yield [f"{each.host}:{each.port}" for each in brokers]


def ask(server: str, request: Message, version: int, client_id: str = "test") -> Message:
    host, _, port = server.rpartition(":")
    with BlockingConnection(host, int(port), client_id=client_id) as connection:
        answer: Message = connection.request(request, version)
    return answer


def knows_quota(server: str, user: str) -> bool:
    wanted = ComponentData(entity_type="user", match_type=0, match=user)
    answer = ask(server, DescribeClientQuotasRequest(components=[wanted]), 1)
    assert isinstance(answer, DescribeClientQuotasResponse)
    return bool(answer.entries)


def test_every_broker_knows_a_quota_that_was_set_at_one_that_is_not_the_controller(servers: list[str]) -> None:
    user = new_name("user")
    set_quotas(servers[-1], {"user": user}, {"producer_byte_rate": 1e12})
    for server in servers:
        eventually(lambda server=server: knows_quota(server, user), f"the quota at {server}")  # type: ignore[misc]
    set_quotas(servers[1], {"user": user}, {"producer_byte_rate": None})
    for server in servers:
        eventually(lambda server=server: not knows_quota(server, user), f"no quota at {server}")  # type: ignore[misc]


def test_client_has_one_quota_of_changes_whichever_broker_it_asks(servers: list[str]) -> None:
    """The controller decides, and the broker that was asked holds the client back."""
    set_quotas(servers[0], {"client-id": CLIENT_ID}, {"controller_mutation_rate": 0.1})
    codes, waits = [], []
    for server in (servers[2], servers[1], servers[0]):
        topic = CreatableTopic(name=new_name("made"), num_partitions=2, replication_factor=1)
        answer = ask(server, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7, CLIENT_ID)
        assert isinstance(answer, CreateTopicsResponse)
        codes.append(answer.topics[0].error_code)
        waits.append(answer.throttle_time_ms > 0)
    throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert codes == [ErrorCode.NONE, throttled, throttled]
    assert waits == [False, True, True]
    set_quotas(servers[0], {"client-id": CLIENT_ID}, {"controller_mutation_rate": None})
