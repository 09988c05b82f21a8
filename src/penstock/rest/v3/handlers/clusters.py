"""The cluster, and its brokers."""

from __future__ import annotations

from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.rest.v3.calls import Call, check, not_found
from penstock.rest.v3.handlers.partitions import describe_replicas
from penstock.rest.v3.resource_urls import ResourceUrl
from penstock.rest.v3.shapes import Broker, BrokerList, Cluster, ClusterList, ListMetadata, ReplicaList


async def ask_cluster(call: Call) -> DescribeClusterResponse:
    answer: DescribeClusterResponse = await call.brokers.ask(DescribeClusterRequest(), retry=True)
    check(answer.error_code, answer.error_message)
    return answer


async def list_clusters(call: Call) -> ClusterList:
    """The one cluster that the proxy speaks to."""
    url = call.cluster.url.rpartition("/")[0]
    return ClusterList(metadata=ListMetadata(link=url), data=[await get_cluster(call)])


async def get_cluster(call: Call) -> Cluster:
    answer = await ask_cluster(call)
    cluster = call.cluster
    controller = _place(cluster, answer.controller_id).related if answer.controller_id >= 0 else None
    return Cluster(
        metadata=cluster.metadata,
        cluster_id=call.cluster_id,
        controller=controller,
        acls=cluster.relating("acls"),
        brokers=cluster.relating("brokers"),
        broker_configs=cluster.relating("broker-configs"),
        consumer_groups=cluster.relating("consumer-groups"),
        topics=cluster.relating("topics"),
        partition_reassignments=cluster.relating("topics/-/partitions/-/reassignment"),
    )


def _place(cluster: ResourceUrl, broker_id: int) -> ResourceUrl:
    return cluster.under("brokers", "broker", broker_id)


async def list_brokers(call: Call) -> BrokerList:
    answer = await ask_cluster(call)
    rows = sorted(answer.brokers, key=lambda row: row.broker_id)
    return BrokerList(metadata=call.cluster.listing("brokers"), data=[_broker(call, row) for row in rows])


async def get_broker(call: Call) -> Broker:
    return _broker(call, await find_broker(call))


async def find_broker(call: Call) -> DescribeClusterBroker:
    """The broker of the path. Raises RestError where there is none."""
    broker_id = call.number("broker_id")
    for row in (await ask_cluster(call)).brokers:
        if row.broker_id == broker_id:
            return row
    raise not_found(f"Broker {broker_id} cannot be found.")


def _broker(call: Call, row: DescribeClusterBroker) -> Broker:
    place = _place(call.cluster, row.broker_id)
    return Broker(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        broker_id=row.broker_id,
        host=row.host or None,
        port=row.port if row.port >= 0 else None,
        rack=row.rack,
        configs=place.relating("configs"),
        partition_replicas=place.relating("partition-replicas"),
    )


async def list_replicas_of_broker(call: Call) -> ReplicaList:
    row = await find_broker(call)
    found = [
        replica
        for name, topic in (await call.all_topics()).items()
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        for replica in describe_replicas(call, name, partition)
        if replica.broker_id == row.broker_id
    ]
    return ReplicaList(metadata=_place(call.cluster, row.broker_id).listing("partition-replicas"), data=found)
