"""Reads the metadata image from a store."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from penstock.cluster.image import (
    NO_CONTROLLER,
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    Settings,
    TopicImage,
)
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Node, Store, StoreError, StoreErrorKind


async def load_image(store: Store) -> MetadataImage:
    """Everything in the store. Raises StoreError(CORRUPT) when a node is missing or cannot be understood."""
    cluster_id, controller, controller_epoch = await store.read_many(
        [znodes.CLUSTER_ID, znodes.CONTROLLER, znodes.CONTROLLER_EPOCH]
    )
    default_config, broker_configs = await _load_broker_configs(store)
    return MetadataImage(
        cluster_id=znodes.decode_cluster_id(_required(znodes.CLUSTER_ID, cluster_id).data),
        controller_id=NO_CONTROLLER if controller is None else znodes.decode_controller(controller.data),
        controller_epoch=znodes.decode_controller_epoch(_required(znodes.CONTROLLER_EPOCH, controller_epoch).data),
        brokers={broker.node_id: broker for broker in await _load_brokers(store)},
        topics={topic.name: topic for topic in await _load_topics(store)},
        broker_configs=broker_configs,
        default_broker_config=default_config,
        group_configs=await _load_group_configs(store),
    )


async def _load_brokers(store: Store) -> list[BrokerRegistration]:
    names = await store.children(znodes.BROKER_IDS)
    nodes = await store.read_many([f"{znodes.BROKER_IDS}/{name}" for name in names])
    # A broker may have left between the two reads.
    return [znodes.decode_broker(int(name), node.data) for name, node in zip(names, nodes, strict=True) if node]


async def _load_broker_configs(store: Store) -> tuple[Settings, dict[int, Settings]]:
    names = await store.children(znodes.BROKER_CONFIGS)
    paths = [f"{znodes.BROKER_CONFIGS}/{name}" for name in names]
    settings = await _load_settings(store, paths)
    by_name = dict(zip(names, settings, strict=True))
    default = by_name.pop(znodes.DEFAULT_ENTITY, MappingProxyType({}))
    return default, {int(name): value for name, value in by_name.items()}


async def _load_group_configs(store: Store) -> dict[str, Settings]:
    names = await store.children(znodes.GROUP_CONFIGS)
    settings = await _load_settings(store, [f"{znodes.GROUP_CONFIGS}/{name}" for name in names])
    return {znodes.group_of_config(name): value for name, value in zip(names, settings, strict=True)}


async def _load_settings(store: Store, paths: Sequence[str]) -> list[Settings]:
    nodes = await store.read_many(paths)
    return [
        MappingProxyType(znodes.decode_settings(path, node.data if node else b""))
        for path, node in zip(paths, nodes, strict=True)
    ]


async def _load_topics(store: Store) -> list[TopicImage]:
    names = await store.children(znodes.TOPICS)
    nodes = await store.read_many([znodes.topic_path(name) for name in names])
    configs = await _load_settings(store, [znodes.topic_config_path(name) for name in names])
    topics = []
    for name, node, settings in zip(names, nodes, configs, strict=True):
        assignment = znodes.decode_topic(name, _required(znodes.topic_path(name), node).data)
        partitions = await _load_partitions(store, name, assignment.replicas)
        topics.append(TopicImage(name, assignment.topic_id, partitions, settings))
    return topics


async def _load_partitions(
    store: Store, topic: str, replicas: dict[int, tuple[int, ...]]
) -> tuple[PartitionState, ...]:
    paths = [znodes.partition_state_path(topic, partition) for partition in sorted(replicas)]
    nodes = await store.read_many(paths)
    states = []
    for partition, (path, node) in enumerate(zip(paths, nodes, strict=True)):
        found = _required(path, node)
        state = znodes.decode_partition_state(topic, partition, replicas[partition], found.data, found.version)
        states.append(state)
    return tuple(states)


def _required(path: str, node: Node | None) -> Node:
    if node is None:
        raise StoreError(StoreErrorKind.CORRUPT, path, "the node is missing, though others refer to it")
    return node
