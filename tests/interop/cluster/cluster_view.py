"""How the tests of three brokers see them: who leads, who is in sync, who may be spared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka.cimpl import NewTopic

import penstock
from penstock.local_cluster.members import ClusterBroker
from tests.clients.confluent import admin_of
from tests.interop.conftest import KafkaTool

PATIENCE_S = 120.0

_ROW = re.compile(r"Topic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S*)\tIsr: (\S*)")


class Described(NamedTuple):
    """A partition as kafka-topics shows it. Nobody leads: None."""

    leader: int | None
    replicas: list[int]
    in_sync: set[int]


def bystander(cluster: penstock.Cluster) -> ClusterBroker:
    """A broker that runs and is not the controller."""
    controller = cluster.controller_id()
    return next(broker for broker in cluster.brokers if broker.is_running and broker.node_id != controller)


def place(
    cluster: penstock.Cluster, topic: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
) -> None:
    """Makes a topic whose partitions have these replicas, and waits until all brokers know it."""
    wanted = NewTopic(
        topic, len(replicas), replica_assignment=[list(each) for each in replicas], config=dict(config or {})
    )
    admin_of(cluster.bootstrap_servers).create_topics([wanted])[topic].result(PATIENCE_S)
    cluster.wait_until_in_sync(PATIENCE_S)


def describe(tool: KafkaTool, topic: str, *arguments: str) -> dict[int, Described]:
    """The topic's partitions among those that kafka-topics shows with these arguments."""
    rows = _ROW.findall(tool("kafka-topics", "--describe", *(arguments or ("--topic", topic))).stdout)
    return {
        int(partition): Described(None if leader == "none" else int(leader), _numbers(replicas), set(_numbers(in_sync)))
        for name, partition, leader, replicas, in_sync in rows
        if name == topic
    }


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]
