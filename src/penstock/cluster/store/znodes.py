"""Paths of the store's nodes and the JSON in them, laid out as Kafka did in ZooKeeper.

One node of Kafka's is missing: /admin/delete_topics, its queue of topics whose files are still to be removed. Topics
have ids, so a broker that finds a log of a topic id it does not know may remove it at any later time, and deleting a
topic takes one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from penstock.cluster.image import BrokerRegistration, PartitionState, Settings, TopicImage
from penstock.cluster.levels import FEATURE, FIRST_LEVEL, LevelRange
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.core.config.types import ConfigError
from penstock.core.listeners import Endpoint, parse_endpoints
from penstock.core.types import TopicId, format_topic_id, parse_topic_id

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
# The node is empty: its version is a counter for the broker epochs.
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURES = "/feature"
DEFAULT_ENTITY = "<default>"
# The log of the metadata: its position in the node, the deltas below the node. Kafka has nothing like it.
LOG = "/penstock/log"
# Below the node a snapshot of the metadata, by the number of its newest delta, and below that its parts.
SNAPSHOTS = "/penstock/snapshots"
# The number of the newest delta that Kafka's nodes show as a whole; missing where they show nothing yet.
PICTURE = "/penstock/picture"
# The brokers as the log knows them, below `SNAPSHOT_LEVEL`. Those in /brokers/ids may have changed since.
BROKERS = "/penstock/brokers"
# The cluster was restored from a snapshot.
RESTORATION = "/penstock/restoration"
# The secret for the salts of users that do not exist. The first broker with logins makes it.
LOGIN_SECRET = "/penstock/login_secret"  # noqa: S105  # a path
# In the store of a standalone node alone: it is on its way into a cluster.
ADOPTION = "/penstock/adoption"

# Made with the cluster, or by the first version that knows them.
PERSISTENT_PATHS = (
    "/cluster",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    LOG,
    BROKERS,
)


def broker_path(node_id: int) -> str:
    return f"{BROKER_IDS}/{node_id}"


def delta_path(number: int) -> str:
    return f"{LOG}/{number:010d}"


def snapshot_path(number: int) -> str:
    return f"{SNAPSHOTS}/{number:010d}"


def snapshot_part_path(number: int, part: int) -> str:
    return f"{snapshot_path(number)}/{part:04d}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(node_id: int | None) -> str:
    return f"{BROKER_CONFIGS}/{DEFAULT_ENTITY if node_id is None else node_id}"


def group_config_path(group_id: str) -> str:
    """A group's name is any text, also a text that would be a path of several nodes or none."""
    return f"{GROUP_CONFIGS}/{quote(group_id, safe='').replace('.', '%2E')}"


def group_of_config(node_name: str) -> str:
    return unquote(node_name)


class TopicAssignment(NamedTuple):
    """Replicas by partition; `adding` and `removing` have only the partitions whose replicas move."""

    topic_id: TopicId
    replicas: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]]
    removing: dict[int, tuple[int, ...]]


class AdoptionMark(NamedTuple):
    """The cluster that a standalone node is about to join, and its id there."""

    cluster_id: str
    node_id: int


class ProducerIdBlock(NamedTuple):
    first_producer_id: int
    size: int

    @property
    def last_producer_id(self) -> int:
        return self.first_producer_id + self.size - 1


# The state of a new cluster: no broker has claimed a block yet. A cluster without the node has lost it.
NO_PRODUCER_IDS = ProducerIdBlock(0, 0)


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    try:
        return str(_decode(CLUSTER_ID, data)["id"])
    except KeyError as error:
        raise _damaged(CLUSTER_ID, error) from error


def encode_broker(broker: BrokerRegistration, now_ms: int) -> bytes:
    first = broker.endpoints[0]
    return _encode(
        {
            "version": 5,
            "host": first.host,
            "port": first.port,
            "jmx_port": -1,
            "timestamp": str(now_ms),
            "endpoints": [str(endpoint) for endpoint in broker.endpoints],
            "listener_security_protocol_map": {each.name: each.security_protocol for each in broker.endpoints},
            "features": {
                FEATURE: {"min_version": broker.levels.lowest, "max_version": broker.levels.highest},
            },
            "rack": broker.rack,
            # Kafka takes the epoch from ZooKeeper's transaction id, which a reader of the JSON does not see.
            "epoch": broker.epoch,
            "previous_epoch": broker.previous_epoch,
            "directories": broker.directories,
            "empty": broker.is_empty,
        }
    )


def decode_broker(node_id: int, data: bytes) -> BrokerRegistration:
    path = broker_path(node_id)
    value = _decode(path, data)
    try:
        endpoints = parse_endpoints("endpoints", value["endpoints"], value["listener_security_protocol_map"])
        epoch, previous_epoch = int(value.get("epoch", 0)), int(value.get("previous_epoch", -1))
        levels = _levels(value.get("features", {}).get(FEATURE))
        directories = tuple(map(str, value.get("directories", ())))
        return BrokerRegistration(
            node_id,
            endpoints,
            value.get("rack"),
            epoch,
            previous_epoch,
            levels=levels,
            directories=directories,
            is_empty=bool(value.get("empty", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise _damaged(path, error) from error


def _levels(value: dict[str, int] | None) -> LevelRange:
    """A broker without levels is from before there were levels."""
    if value is None:
        return LevelRange(FIRST_LEVEL, FIRST_LEVEL)
    return LevelRange(int(value["min_version"]), int(value["max_version"]))


class StoredBrokers(NamedTuple):
    """`directories` also has those of brokers that are away."""

    here: dict[int, BrokerRegistration]
    directories: dict[int, tuple[str, ...]]
    away: dict[int, BrokerRegistration]


def encode_brokers(
    brokers: Mapping[int, BrokerRegistration],
    directories: Mapping[int, tuple[str, ...]],
    away: Mapping[int, BrokerRegistration],
) -> bytes:
    return _encode(
        {
            "version": 1,
            "brokers": brokers_to_json(brokers),
            "directories": directories_to_json(directories),
            "away": brokers_to_json(away),
        }
    )


def decode_brokers(data: bytes) -> StoredBrokers:
    if not data:
        return StoredBrokers({}, {}, {})
    try:
        value = _decode(BROKERS, data)
        directories = directories_from_json(value.get("directories", {}))
        return StoredBrokers(brokers_from_json(value["brokers"]), directories, brokers_from_json(value.get("away", [])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(BROKERS, error) from error


def directories_to_json(directories: Mapping[int, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {str(node_id): directories[node_id] for node_id in sorted(directories)}


def directories_from_json(value: dict[str, list[str]]) -> dict[int, tuple[str, ...]]:
    return {int(node_id): tuple(ids) for node_id, ids in value.items()}


def brokers_to_json(brokers: Mapping[int, BrokerRegistration]) -> list[Any]:
    return [tuple(brokers[node_id]) for node_id in sorted(brokers)]


def brokers_from_json(value: list[Any]) -> dict[int, BrokerRegistration]:
    brokers = (
        BrokerRegistration(node_id, tuple(Endpoint(*each) for each in endpoints), *rest)
        for node_id, endpoints, *rest in value
    )
    return {broker.node_id: _with_tuples(broker) for broker in brokers}


def _with_tuples(broker: BrokerRegistration) -> BrokerRegistration:
    """JSON knows lists alone."""
    return broker._replace(levels=LevelRange(*broker.levels), directories=tuple(broker.directories))


def encode_topic(topic: TopicImage) -> bytes:
    return _encode(
        {
            "version": 3,
            "topic_id": format_topic_id(topic.topic_id),
            "partitions": {str(state.partition): state.replicas for state in topic.partitions},
            "adding_replicas": {str(state.partition): state.adding for state in topic.partitions if state.adding},
            "removing_replicas": {str(state.partition): state.removing for state in topic.partitions if state.removing},
        }
    )


def decode_topic(name: str, data: bytes) -> TopicAssignment:
    path = topic_path(name)
    value = _decode(path, data)
    try:
        replicas = _nodes_by_partition(value["partitions"])
        if sorted(replicas) != list(range(len(replicas))):
            raise ValueError("the partitions are not numbered from 0 without gaps")
        adding = _nodes_by_partition(value.get("adding_replicas", {}))
        removing = _nodes_by_partition(value.get("removing_replicas", {}))
        return TopicAssignment(parse_topic_id(value["topic_id"]), replicas, adding, removing)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from error


def _nodes_by_partition(value: dict[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(partition): tuple(map(int, nodes)) for partition, nodes in value.items()}


def encode_partition_state(state: PartitionState, controller_epoch: int) -> bytes:
    return _encode(
        {
            "version": 1,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
            "controller_epoch": controller_epoch,
        }
    )


def decode_partition_state(
    topic: str, partition: int, assignment: TopicAssignment, data: bytes, version: int
) -> PartitionState:
    path = partition_state_path(topic, partition)
    value = _decode(path, data)
    try:
        isr = tuple(map(int, value["isr"]))
        return PartitionState(
            partition,
            assignment.replicas[partition],
            isr,
            int(value["leader"]),
            int(value["leader_epoch"]),
            version,
            assignment.adding.get(partition, ()),
            assignment.removing.get(partition, ()),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def encode_settings(settings: Settings) -> bytes:
    return _encode({"version": 1, "config": dict(settings)})


def decode_settings(path: str, data: bytes) -> dict[str, str]:
    if not data:
        return {}
    try:
        return {str(name): str(value) for name, value in _decode(path, data)["config"].items()}
    except (KeyError, AttributeError) as error:
        raise _damaged(path, error) from error


def encode_controller(node_id: int, now_ms: int) -> bytes:
    return _encode({"version": 1, "brokerid": node_id, "timestamp": str(now_ms)})


def decode_controller(data: bytes) -> int:
    return _integer(CONTROLLER, _decode(CONTROLLER, data).get("brokerid"))


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    return _integer(CONTROLLER_EPOCH, data)


def encode_producer_id_block(block: ProducerIdBlock, node_id: int) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": node_id,
            "block_start": str(block.first_producer_id),
            "block_end": str(block.last_producer_id),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    value = _decode(PRODUCER_ID_BLOCK, data)
    first = _integer(PRODUCER_ID_BLOCK, value.get("block_start"))
    last = _integer(PRODUCER_ID_BLOCK, value.get("block_end"))
    return ProducerIdBlock(first, last - first + 1)


def encode_features(metadata_level: int) -> bytes:
    return _encode({"version": 2, "status": 1, "features": {FEATURE: {"max_version_level": metadata_level}}})


def decode_features(data: bytes) -> int:
    """The level of the metadata."""
    try:
        value = _decode(FEATURES, data)["features"].get(FEATURE)
        return FIRST_LEVEL if value is None else int(value["max_version_level"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(FEATURES, error) from error


def encode_picture(number: int) -> bytes:
    return str(number).encode()


def decode_picture(data: bytes) -> int:
    """-1 where the node has no number: then the drawn nodes are unknown."""
    return int(data) if data.isdigit() else -1


def encode_adoption(mark: AdoptionMark) -> bytes:
    return _encode({"version": 1, "cluster_id": mark.cluster_id, "broker": mark.node_id})


def decode_adoption(data: bytes) -> AdoptionMark:
    value = _decode(ADOPTION, data)
    return AdoptionMark(str(value.get("cluster_id")), _integer(ADOPTION, value.get("broker")))


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise _damaged(path, error) from error
    if not isinstance(value, dict):
        raise _damaged(path, ValueError("not a JSON object"))
    return value


def _integer(path: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> StoreError:
    return StoreError(StoreErrorKind.CORRUPT, path, f"the node cannot be understood: {error!r}")
