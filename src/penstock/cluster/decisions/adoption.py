"""The decision whether a standalone node can become a broker of a cluster, and the image afterwards.

Rules:
- Topics keep their names, ids, settings and leader epochs. Each partition has one replica, this broker, which leads it.
- Nothing of the cluster changes. Resources that both sides have under one name, but with different content, are
  refused: only a person can decide between the two. That holds for the internal topics as well: offsets and
  transactions of two sides cannot be told apart in one topic.
- A producer id is handed out once. Both sides count from 0, so a cluster that has handed out ids of its own cannot
  adopt a node that has: a producer of the cluster would be taken for a producer of the node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from penstock.cluster.image import MetadataImage, PartitionState, Settings, TopicImage
from penstock.cluster.levels import SECURITY_LEVEL
from penstock.cluster.security_image import NO_SECURITY, SecurityImage

_Key = TypeVar("_Key", int, str)

# The number of names in a message; for more names the message has their number.
_NAMES_TOLD = 5


class AdoptionError(Exception):
    """`hint` is the remedy for the user."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message = message
        self.hint = hint


class Newcomer(NamedTuple):
    """The standalone node: its metadata, its former id, and its new id."""

    image: MetadataImage
    former_id: int
    node_id: int


def decide_adoption(cluster: MetadataImage, newcomer: Newcomer, registered: Collection[int]) -> MetadataImage:
    """The cluster's image with all resources of the node. `registered` are the brokers whose nodes are in the store.

    Raises AdoptionError for a collision.
    """
    _check_broker_id(cluster, newcomer.node_id, registered)
    _check_topics(cluster, newcomer.image)
    node_id, source = newcomer.node_id, newcomer.image
    own_configs = source.broker_configs.get(newcomer.former_id, {})
    return replace(
        cluster,
        topics={**cluster.topics, **{name: _adopted(topic, node_id) for name, topic in source.topics.items()}},
        broker_configs=_merged("broker", cluster.broker_configs, {node_id: own_configs} if own_configs else {}),
        default_broker_config=_default_config(cluster, source.default_broker_config),
        group_configs=_merged("group", cluster.group_configs, source.group_configs),
        directories=_directories(cluster, newcomer),
        away={other: broker for other, broker in cluster.away.items() if other != node_id},
        security=_security(cluster, source.security),
    )


def is_adopted(cluster: MetadataImage, source: MetadataImage) -> bool:
    """Whether the cluster has the node's topics, for a node that has begun. Some may have been deleted since."""
    return any(topic.topic_id in cluster.topics_by_id for topic in source.topics.values())


def _adopted(topic: TopicImage, node_id: int) -> TopicImage:
    """New nodes in the store begin at version 0. The leader's first registration begins a new term."""
    return topic._replace(
        partitions=tuple(
            PartitionState(state.partition, (node_id,), (node_id,), node_id, state.leader_epoch)
            for state in topic.partitions
        )
    )


def _directories(cluster: MetadataImage, newcomer: Newcomer) -> Mapping[int, tuple[str, ...]]:
    """The directories of the node, so that no empty disk with its id is taken for the node, nor the node for a broker
    of long ago.
    """
    others = {node_id: ids for node_id, ids in cluster.directories.items() if node_id != newcomer.node_id}
    own = newcomer.image.directories.get(newcomer.former_id)
    return {**others, newcomer.node_id: own} if own else others


def _check_broker_id(cluster: MetadataImage, node_id: int, registered: Collection[int]) -> None:
    hint = "Give this node an id of its own with --broker-id."
    if node_id in registered or node_id in cluster.brokers:
        raise AdoptionError(f"a broker with the id {node_id} is running in the cluster", hint)
    for topic in cluster.topics.values():
        if any(node_id in state.replicas for state in topic.partitions):
            raise AdoptionError(f"a broker with the id {node_id} belongs to the cluster: it has {topic.name}", hint)


def _check_topics(cluster: MetadataImage, source: MetadataImage) -> None:
    shared = [name for name in source.topics if name in cluster.topics]
    internal = [name for name in shared if source.topics[name].is_internal]
    if internal:
        raise AdoptionError(
            f"both this node and the cluster have {_told(internal)}, and two of them cannot become one",
            "Adopt the node before the cluster's first group or transaction, or into an ensemble (or a path of one) of "
            "its own.",
        )
    if shared:
        raise AdoptionError(
            f"both this node and the cluster have topics with these names: {_told(shared)}",
            "Delete them on the side that does not need them, or copy their records under another name first.",
        )
    ids = [name for name, topic in source.topics.items() if topic.topic_id in cluster.topics_by_id]
    if ids:
        raise AdoptionError(
            f"the cluster has topics with the ids of {_told(ids)}",
            "The directory is perhaps a copy of one that belongs to the cluster already. Delete the topics there, or "
            "use that directory.",
        )
    similar = {name: cluster.colliding_names.get(name.replace(".", "_")) for name in source.topics}
    pairs = [f"{name} and {other}" for name, other in similar.items() if other is not None]
    if pairs:
        raise AdoptionError(
            f"names of topics differ in a dot and an underscore alone: {_told(pairs)}",
            "Their metrics would have the same names. Delete the topics on one side, or copy them under another name.",
        )


def _default_config(cluster: MetadataImage, wanted: Settings) -> Settings:
    if not wanted or wanted == cluster.default_broker_config:
        return cluster.default_broker_config
    if cluster.default_broker_config or cluster.topics:
        raise AdoptionError(
            f"this node has default settings for all brokers that the cluster does not have: {_told(sorted(wanted))}",
            "Give the cluster the same ones, or take the node's away: penstock configs alter --broker-defaults.",
        )
    return wanted


def _merged(what: str, cluster: Mapping[_Key, Settings], source: Mapping[_Key, Settings]) -> Mapping[_Key, Settings]:
    different = [key for key, settings in source.items() if cluster.get(key) and cluster[key] != settings]
    if different:
        raise AdoptionError(
            f"this node and the cluster have different settings of {what} {_told(map(str, different))}",
            "Give both sides the same settings (penstock configs alter).",
        )
    return {**cluster, **source} if source else cluster


def _security(cluster: MetadataImage, wanted: SecurityImage) -> SecurityImage:
    """Merged rights of two sides would be neither side's: the cluster keeps its rights, or a cluster without rights
    takes the node's.
    """
    if wanted in (NO_SECURITY, cluster.security):
        return cluster.security
    if cluster.security != NO_SECURITY:
        raise AdoptionError(
            "both this node and the cluster have ACLs, users, quotas, policies or kept tags, and they differ",
            "Take the node's away, and give the cluster what it lacks of them: penstock acls, users, quotas, policies, "
            "configs.",
        )
    if cluster.metadata_level < SECURITY_LEVEL:
        raise AdoptionError(
            "this node has ACLs, users, quotas or policies, and the cluster's metadata is too old for them",
            "Run `penstock cluster upgrade` first.",
        )
    return wanted


def _told(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _NAMES_TOLD
    return ", ".join(listed[:_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")
