from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.settings import (
    CHOSEN_BY_THE_CLUSTER,
    BrokerPlace,
    broker_properties,
    check_settings,
    shared_properties,
)

PLACE = BrokerPlace(2, "127.0.0.1", 9093, Path("/data/broker-2"))


@pytest.mark.parametrize(
    ("brokers", "factor", "min_in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_replicas_are_as_many_as_the_brokers_allow_when_nothing_is_given(
    brokers: int, factor: str, min_in_sync: str
) -> None:
    shared = shared_properties(brokers, None)
    for key in ("default", "offsets.topic", "transaction.state.log"):
        assert shared[f"{key}.replication.factor"] == factor
    assert (shared["min.insync.replicas"], shared["transaction.state.log.min.isr"]) == (min_in_sync, min_in_sync)


def test_given_settings_win_when_the_cluster_has_defaults() -> None:
    shared = shared_properties(3, {"min.insync.replicas": 1, "auto.create.topics.enable": False})
    assert (shared["min.insync.replicas"], shared["auto.create.topics.enable"]) == ("1", "false")


@pytest.mark.parametrize("key", sorted(CHOSEN_BY_THE_CLUSTER))
def test_setting_is_refused_when_the_cluster_chooses_it_for_each_broker(key: str) -> None:
    with pytest.raises(ClusterError, match=key):
        shared_properties(3, {key: "x"})


@pytest.mark.parametrize(("key", "value"), [("min.insync.replicas", "abc"), ("zookeeper.session.timeout.ms", "soon")])
def test_setting_is_refused_before_anything_starts_when_a_broker_would_refuse_it(key: str, value: str) -> None:
    with pytest.raises(ClusterError, match=key):
        check_settings([PLACE], shared_properties(3, {key: value}))


def test_broker_has_its_own_identity_when_it_shares_the_rest() -> None:
    properties = broker_properties(PLACE, shared_properties(3, None), "127.0.0.1:2181")
    assert properties["zookeeper.connect"] == "127.0.0.1:2181"
    config = BrokerConfig.parse(properties)
    assert config.identity.node_id == 2
    assert [str(endpoint) for endpoint in config.endpoints] == ["PLAINTEXT://127.0.0.1:9093"]
    assert config.log_directories == ("/data/broker-2",)


def test_no_zookeeper_is_named_when_the_store_is_in_memory() -> None:
    properties = broker_properties(PLACE, shared_properties(3, None), None)
    assert not [key for key in properties if key.startswith("zookeeper.")]


def test_files_lie_beside_the_data_when_a_broker_has_a_place() -> None:
    assert PLACE.log_path == Path("/data/broker-2.log")
    assert PLACE.properties_path == Path("/data/broker-2.properties")
