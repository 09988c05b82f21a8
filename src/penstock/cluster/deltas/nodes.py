"""The writes of a delta to the nodes that Kafka's tools read. Below `SNAPSHOT_LEVEL` a broker loads from these nodes.

Rules:
- The node of a grown or reassigned topic is written after the states of its new partitions. So a reader who finds a
  partition in the topic's node finds its state.
- The node of a deleted topic is deleted last, and the node of a new topic is created first. So a topic's node with the
  id of a new topic shows that all nodes of an old topic of that name are gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster.deltas.delta import DeletedTopic, Delta, TopicChange, difference
from penstock.cluster.deltas.security import SecurityDelta
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import CompareAndSet, Create, Delete, Node, Operation


def write_operations(old: MetadataImage, new: MetadataImage) -> list[Operation]:
    """The operations that turn the nodes of one image into those of the other."""
    delta = difference(old, new)
    return [] if delta is None else delta_operations(delta, new)


def delta_operations(delta: Delta, image: MetadataImage) -> list[Operation]:
    """`image` is the image after the delta."""
    operations = [*shown_operations(delta, image), *_security_operations(delta.security)]
    if delta.brokers is not None or delta.directories is not None or delta.away is not None:
        brokers = znodes.encode_brokers(image.brokers, image.directories, image.away)
        operations.append(CompareAndSet(znodes.BROKERS, brokers))
    return operations


def shown_operations(delta: Delta, image: MetadataImage) -> list[Operation]:
    """The operations of the delta that Kafka's tools see, except for security."""
    epoch = delta.controller_epoch
    operations: list[Operation] = []
    for gone in delta.deleted:
        operations += delete_topic_operations(gone)
    for topic in delta.created:
        operations += create_topic_operations(topic, epoch)
    for change in delta.changed:
        operations += _change_topic_operations(change, image.topics[change.name], epoch)
    operations += _settings_operations(delta)
    if delta.metadata_level is not None:
        operations.append(CompareAndSet(znodes.FEATURES, znodes.encode_features(delta.metadata_level)))
    return operations


def remaining_operations(delta: Delta, image: MetadataImage, nodes: Mapping[str, Node]) -> list[Operation]:
    """The delta's operations that are not done yet. `nodes` are the existing nodes of `touched_paths`."""
    gone = {topic.name: topic for topic in delta.deleted}
    anew = [topic for topic in delta.created if topic.name in gone]
    untouched: set[str] = set()  # paths of old topics that are being deleted: nothing new is there yet
    finished: set[str] = set()  # paths of recreated topics: nothing old is there any more
    for topic in anew:
        node = nodes.get(znodes.topic_path(topic.name))
        is_begun = node is not None and znodes.decode_topic(topic.name, node.data).topic_id == topic.topic_id
        paths = {operation.path for operation in create_topic_operations(topic, delta.controller_epoch)}
        paths |= {operation.path for operation in delete_topic_operations(gone[topic.name])}
        (finished if is_begun else untouched).update(paths)
    remaining: list[Operation] = []
    for operation in delta_operations(delta, image):
        node = nodes.get(operation.path)
        match operation:
            case Create(path):
                is_done = node is not None and path not in untouched
            case Delete(path):
                is_done = node is None or path in finished
            case CompareAndSet(_, _, expected_version):
                is_done = expected_version is not None and node is not None and node.version > expected_version
            case _:
                is_done = False
        if not is_done:
            remaining.append(operation)
    return remaining


def touched_paths(delta: Delta, image: MetadataImage) -> list[str]:
    return list(dict.fromkeys(operation.path for operation in delta_operations(delta, image)))


def create_topic_operations(topic: TopicImage, controller_epoch: int) -> list[Operation]:
    return [
        Create(znodes.topic_path(topic.name), znodes.encode_topic(topic)),
        Create(znodes.topic_config_path(topic.name), znodes.encode_settings(topic.configs)),
        Create(znodes.partitions_path(topic.name)),
        *_create_partition_operations(topic.name, topic.partitions, controller_epoch),
    ]


def delete_topic_operations(topic: DeletedTopic) -> list[Operation]:
    operations: list[Operation] = []
    parent = znodes.partitions_path(topic.name)
    for partition in range(topic.partition_count):
        operations.append(Delete(f"{parent}/{partition}/state"))
        operations.append(Delete(f"{parent}/{partition}"))
    operations.append(Delete(parent))
    operations.append(Delete(znodes.topic_config_path(topic.name)))
    operations.append(Delete(znodes.topic_path(topic.name)))
    return operations


def _change_topic_operations(change: TopicChange, topic: TopicImage, controller_epoch: int) -> list[Operation]:
    added = tuple(state for state in change.states if state.partition >= change.partitions_before)
    operations = _create_partition_operations(topic.name, added, controller_epoch)
    for state in change.states:
        if state.partition < change.partitions_before:
            path = znodes.partition_state_path(topic.name, state.partition)
            data = znodes.encode_partition_state(state, controller_epoch)
            operations.append(CompareAndSet(path, data, state.partition_epoch - 1))
    if change.is_reassigned:
        operations.append(CompareAndSet(znodes.topic_path(topic.name), znodes.encode_topic(topic)))
    if change.configs is not None:
        data = znodes.encode_settings(change.configs)
        operations.append(CompareAndSet(znodes.topic_config_path(topic.name), data))
    return operations


def _create_partition_operations(
    topic: str, partitions: tuple[PartitionState, ...], controller_epoch: int
) -> list[Operation]:
    operations: list[Operation] = []
    parent = znodes.partitions_path(topic)
    encoded: dict[tuple[object, ...], bytes] = {}  # new partitions differ in little but their numbers
    for state in partitions:
        key = (state.leader, state.leader_epoch, state.isr)
        if key not in encoded:
            encoded[key] = znodes.encode_partition_state(state, controller_epoch)
        operations.append(Create(f"{parent}/{state.partition}"))
        operations.append(Create(f"{parent}/{state.partition}/state", encoded[key]))
    return operations


def _settings_operations(delta: Delta) -> list[Operation]:
    operations: list[Operation] = [
        # The node exists since the broker first registered.
        CompareAndSet(znodes.broker_config_path(node_id), znodes.encode_settings(settings))
        for node_id, settings in delta.broker_configs.items()
    ]
    if delta.default_broker_config is not None:
        data = znodes.encode_settings(delta.default_broker_config)
        operations.append(CompareAndSet(znodes.broker_config_path(None), data))
    for group, settings in delta.group_configs.items():
        path = znodes.group_config_path(group)
        if not settings:
            operations.append(Delete(path))
        elif group in delta.new_groups:
            operations.append(Create(path, znodes.encode_settings(settings)))
        else:
            operations.append(CompareAndSet(path, znodes.encode_settings(settings)))
    return operations


def _security_operations(delta: SecurityDelta | None) -> list[Operation]:
    if delta is None:
        return []
    values = {security_nodes.acl_path(each): security_nodes.encode_acls(acls) for each, acls in delta.acls.items()}
    for path_of, changed in (
        (security_nodes.entity_path, delta.entity_configs),
        (security_nodes.token_path, delta.tokens),
        (security_nodes.policy_path, delta.policies),
    ):
        values |= {path_of(key): znodes.encode_settings(settings) for key, settings in changed.items()}
    created, deleted = set(delta.created), set(delta.deleted)
    operations: list[Operation] = [Delete(path) for path in delta.deleted]
    operations += [Create(path, security_nodes.node_data(path, values)) for path in delta.created]
    operations += [CompareAndSet(path, data) for path, data in values.items() if path not in created | deleted]
    return operations
