"""Applies the metadata to the broker: a new image becomes partitions, settings and loaded coordinators.

Rules:
- A new image takes effect in one turn of the loop, so no request sees half of it.
- Slow work happens before and after that turn, in steps. Before the image goes to the store, threads make the
  directories of new partitions, and the loop makes their logs. If the disk or the store refuses, all of them are
  removed. After the image has taken effect the loop closes the logs of deleted partitions, and threads rename their
  directories. Only then the next change begins.
- Partitions come first: the coordinators load from them. A coordinator knows the topics before it loads.
- A coordinator has the state of the partitions that this broker leads, by their leader epochs. The state is dropped
  when the leadership is not sure any more, whatever the image says, and is loaded again when the leadership continues.
- Groups load before transactions: a transaction that ended before the start may have committed offsets of a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.broker.broker import Broker
from penstock.broker.runtimes.coordinator_runtime import CoordinatorRuntime
from penstock.broker.settings import group_settings, settings_by_group
from penstock.cluster.image import ImageDelta, MetadataImage, TopicImage
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.groups.requests import DeletedTopic

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.cluster_links import ClusterLinks


class ImageApplier:
    """Call `start` once. From then on it applies every image that the metadata publishes."""

    def __init__(
        self, broker: Broker, config_changed: Callable[[BrokerConfig], None], cluster_links: ClusterLinks | None = None
    ) -> None:
        """`config_changed` is called for a dynamic change, for parts outside the broker: the listeners' limits. A
        standalone broker has no `cluster_links`.
        """
        self._broker = broker
        self._config_changed = config_changed
        self._cluster_links = cluster_links
        self._runtimes: dict[str, CoordinatorRuntime[Any, Any, Any, Any]] = {
            CONSUMER_OFFSETS: broker.groups,
            TRANSACTION_STATE: broker.transactions,
        }
        broker.partitions.context.lease_changed = self._follow_lease

    def start(self) -> None:
        broker = self._broker
        image = broker.metadata.image
        broker.partitions.remove_strays(image, broker.metadata.restoration_id)
        self.apply(MetadataImage(image.cluster_id), image)
        if self._cluster_links is not None:
            self._cluster_links.start(broker.partitions, broker.flusher, broker.clock, broker.metrics.replicas)
        partitions = broker.partitions
        broker.metadata.subscribe(self.apply, partitions.prepare, partitions.settle, partitions.abandon)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        broker = self._broker
        broker.config = broker.metadata.config
        delta = broker.partitions.apply(old, new)
        if self._cluster_links is not None:
            self._cluster_links.follow(old, new, delta)
        self._follow_settings(delta, new)
        if delta.created or delta.deleted or delta.added:
            broker.groups.topics_changed(new.topics.values())
        self._follow_internal_topics(old, new)
        if delta.changed:
            broker.transactions.on_leaders_changed()
        gone = [DeletedTopic(topic.name, topic.topic_id) for topic in delta.deleted if topic.name not in new.topics]
        if gone:
            broker.groups.remove_topics(gone)

    def _follow_settings(self, delta: ImageDelta, new: MetadataImage) -> None:
        broker = self._broker
        if delta.broker_configs_changed:
            self._config_changed(broker.config)
        if delta.broker_configs_changed or delta.group_configs_changed:
            broker.groups.coordinator.change_settings(
                group_settings(broker.config.groups), settings_by_group(broker.config, new.group_configs)
            )

    def _follow_internal_topics(self, old: MetadataImage, new: MetadataImage) -> None:
        """Loads and drops the coordinators' state with the leadership of its partitions."""
        for name, runtime in self._runtimes.items():
            before, after = old.topics.get(name), new.topics.get(name)
            if after is before:
                continue
            is_same = before is not None and after is not None and before.topic_id == after.topic_id
            if before is not None and not is_same:
                runtime.unload()
            if after is not None and not is_same:
                runtime.shards.partition_count = len(after.partitions)
            if after is not None:
                follow_leaders(runtime, self._broker.node_id, after)

    def _follow_lease(self, topic_partition: TopicPartition) -> None:
        runtime = self._runtimes.get(topic_partition.topic)
        if runtime is not None:
            partition = self._broker.partitions.find(*topic_partition)
            if partition is not None and partition.is_leader:
                runtime.lead(topic_partition.partition, partition.state.leader_epoch)
            else:
                runtime.resign(topic_partition.partition, None)


def follow_leaders(runtime: CoordinatorRuntime[Any, Any, Any, Any], node_id: int, topic: TopicImage) -> None:
    """Tells a coordinator which partitions of its topic this broker leads. Repeated news cost next to nothing."""
    for state in topic.partitions:
        tell = runtime.lead if state.leader == node_id else runtime.resign
        tell(state.partition, state.leader_epoch)
