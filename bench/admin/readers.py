"""The readers of the picture: ours, its requests without it, confluent-kafka's AdminClient, and Kafka's tools.

The picture has the topics, the first and the last offsets of all partitions, the sizes of their logs, and the groups
with members and commits. confluent-kafka has no request for the sizes, so its picture is without them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from apache_kafka.commands import run_command
from bench.contenders import Served
from bench.errors import BenchError
from bench.loads import PATIENCE_S, client_settings
from penstock.admin.blocking_admin import Admin
from penstock.admin.look import Look, NodeLink, Wire
from penstock.admin.picture import Wish, read_picture
from penstock.admin.state.cluster import ClusterState
from penstock.client.addresses import Address
from penstock.client.routes.topology import metadata_request
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataResponse

# What a look has on its way to one broker (penstock.admin.look).
REQUESTS_AT_ONCE = 2
# Kafka's tools run in a virtual machine that stays, which rests for half a second between two of them.
TOOLS_REST_S = 0.6
TOOLS = (
    ("kafka-topics", "--describe"),
    ("kafka-get-offsets", "--time", "-2"),
    ("kafka-get-offsets", "--time", "-1"),
    ("kafka-log-dirs", "--describe"),
    ("kafka-consumer-groups", "--describe", "--all-groups"),
    ("kafka-consumer-groups", "--describe", "--all-groups", "--members"),
)


class Counts(NamedTuple):
    """What a picture shows."""

    topics: int
    partitions: int
    first_offsets: int
    last_offsets: int
    groups: int
    members: int
    commits: int


def count_ours(state: ClusterState) -> Counts:
    if state.failures:
        raise BenchError(f"parts of the picture are missing: {state.failures}")
    groups = state.groups.values()
    return Counts(
        len(state.topics),
        len(state.partitions),
        len(state.first_offsets),
        len(state.last_offsets),
        len(groups),
        sum(len(each.members or ()) for each in groups),
        sum(len(each.committed or ()) for each in groups),
    )


# ------------------------------------------------------------------------------------ the requests of our picture


class RecordedLink:
    """A link that notes what is sent over it."""

    def __init__(self, link: NodeLink, asked: list[Message]) -> None:
        self._link = link
        self._asked = asked
        self.address = link.address
        self.served = link.served
        self.certificate_until = link.certificate_until

    @property
    def answers(self) -> int:
        return self._link.answers

    def version_of(self, message: Message) -> int:
        return self._link.version_of(message)

    async def begin(self, message: Message) -> asyncio.Future[Any]:
        self._asked.append(message)
        return await self._link.begin(message)

    def end(self, reason: str) -> None:
        self._link.end(reason)


class RecordedWire:
    """The connections of a look, with the requests in their order."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.bootstrap = wire.bootstrap
        self.asked: list[Message] = []

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        timeout_s: float | None = None,
        answer_timeout_s: float = PATIENCE_S,
    ) -> MetadataResponse:
        self.asked.append(metadata_request(topics))
        return await self._wire.metadata(topics, timeout_s=timeout_s, answer_timeout_s=answer_timeout_s)

    async def connect_node(self, node_id: int) -> RecordedLink:
        return RecordedLink(await self._wire.connect_node(node_id), self.asked)

    async def connect_address(self, address: Address) -> RecordedLink:
        return RecordedLink(await self._wire.connect_address(address), self.asked)

    def silent_addresses(self) -> frozenset[Address]:
        return self._wire.silent_addresses()


def record(admin: Admin) -> list[Message]:
    """The requests of a picture, in the order in which they were sent."""
    wire = RecordedWire(admin.core.brokers)
    admin.run(read_picture(Look(wire, PATIENCE_S), Wish()))
    return wire.asked


def send_bare(admin: Admin, requests: Sequence[Message]) -> None:
    """The same requests over one connection, on the same loop, as many on their way as a look has; nothing is made of
    the answers, which the client decodes.
    """
    admin.run(_send_bare(admin, requests))


async def _send_bare(admin: Admin, requests: Sequence[Message]) -> None:
    brokers = admin.core.brokers
    (node,) = (await brokers.metadata([])).brokers
    link = await brokers.connect_node(node.node_id)
    turns = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def ask(message: Message) -> None:
        async with turns:
            await (await link.begin(message))

    first, *others = requests  # the topics: all else depends on them
    await ask(first)
    await asyncio.gather(*map(ask, others))


# ------------------------------------------------------------------------------------ the others


def read_confluent(server: Served) -> Counts:
    admin = AdminClient(client_settings(server))
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    places = [TopicPartition(topic, index) for topic, row in topics.items() for index in row.partitions]
    first, last = (
        _results(admin.list_offsets(dict.fromkeys(places, spec), request_timeout=PATIENCE_S))
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    listed = admin.list_consumer_groups(request_timeout=PATIENCE_S).result(PATIENCE_S).valid
    ids = [each.group_id for each in listed]
    described = _results(admin.describe_consumer_groups(ids, request_timeout=PATIENCE_S))
    asked = [admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(each)]) for each in ids]
    commits = [result for each in asked for result in _results(each)]
    return Counts(
        len(topics),
        len(places),
        len(first),
        len(last),
        len(ids),
        sum(len(each.members) for each in described),
        sum(len(each.topic_partitions or ()) for each in commits),
    )


def _results(futures: dict[Any, Future[Any]]) -> list[Any]:
    return [future.result(PATIENCE_S) for future in futures.values()]


def seconds_of_tools(server: Served) -> float:
    """One tool after the other, without the starts of virtual machines."""
    where = ("--bootstrap-server", server.bootstrap_servers)
    seconds = 0.0
    for name, *arguments in TOOLS:
        time.sleep(TOOLS_REST_S)
        seconds += seconds_of(partial(run_command, name, *where, *arguments))
    return seconds


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
