"""The settings of brokers that form a cluster on one machine. Pure.

The user's settings beat these defaults. The cluster itself chooses each broker's id, its address and its directories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.properties import ConfigMapping, as_properties
from penstock.local_cluster.errors import ClusterError

# A dead broker is not missed, and a record is on two disks before it is acknowledged: Kafka's users run it like this.
_REPLICATION_FACTOR = 3
_MIN_IN_SYNC_REPLICAS = 2
# Brokers on one machine hear of each other at once. ZooKeeper's usual 18 s are for networks.
_SESSION_TIMEOUT_MS = 2_000
# ZooKeeper starts together with the brokers, and on a busy machine Java takes its time.
_CONNECTION_TIMEOUT_MS = 60_000

# Which one it is does not matter to a check of the settings.
_ANY_ZOOKEEPER = "127.0.0.1:2181"

CHOSEN_BY_THE_CLUSTER = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "port",
        "zookeeper.connect",
    }
)


class BrokerPlace(NamedTuple):
    """A broker's number, address and directory. Its other files lie beside the directory."""

    node_id: int
    host: str
    port: int
    data_dir: Path
    listener: str = "PLAINTEXT"
    # Settings that no other broker has: its certificate, for instance.
    own: Mapping[str, str] = MappingProxyType({})

    @property
    def properties_path(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.properties")

    @property
    def log_path(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.log")


def shared_properties(broker_count: int, config: ConfigMapping | None) -> dict[str, str]:
    """What all brokers of the cluster have in common. Raises ClusterError on a setting that is not the user's."""
    given = as_properties(config)
    _check_chosen(given)
    factor = str(min(_REPLICATION_FACTOR, broker_count))
    min_in_sync = str(_MIN_IN_SYNC_REPLICAS if broker_count >= _REPLICATION_FACTOR else 1)
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": min_in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": min_in_sync,
        "zookeeper.connection.timeout.ms": str(_CONNECTION_TIMEOUT_MS),
        "zookeeper.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
        # A group here need not wait for members that will not come.
        "group.initial.rebalance.delay.ms": "0",
        **given,
    }


def check_settings(places: Sequence[BrokerPlace], shared: dict[str, str]) -> None:
    """Raises ClusterError where a broker would refuse its settings: nothing has been started yet."""
    for place in places:
        try:
            BrokerConfig.parse(broker_properties(place, shared, _ANY_ZOOKEEPER))
        except ConfigError as error:
            raise ClusterError(error.message, "Correct the setting: every broker would refuse it.") from error


def changed_properties(properties: dict[str, str], config: ConfigMapping) -> dict[str, str]:
    """A broker's properties with other settings. Raises ClusterError where the broker would refuse them."""
    given = as_properties(config)
    _check_chosen(given)
    changed = {**properties, **given}
    try:
        BrokerConfig.parse(changed)
    except ConfigError as error:
        raise ClusterError(error.message, "Correct the setting: the broker would refuse it.") from error
    return changed


def _check_chosen(given: dict[str, str]) -> None:
    refused = sorted(CHOSEN_BY_THE_CLUSTER & given.keys())
    if refused:
        raise ClusterError(f"{', '.join(refused)}: the cluster chooses this for each broker", "Leave it out.")


def broker_properties(place: BrokerPlace, shared: dict[str, str], zookeeper_connect: str | None) -> dict[str, str]:
    own = {
        "broker.id": str(place.node_id),
        "listeners": f"{place.listener}://{place.host}:{place.port}",
        "log.dirs": str(place.data_dir),
        **place.own,
    }
    if zookeeper_connect is None:  # the store is in memory
        return {**own, **{key: value for key, value in shared.items() if not key.startswith("zookeeper.")}}
    return {**own, "zookeeper.connect": zookeeper_connect, **shared}
