from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.local_cluster.directory import Ports
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.ports import choose_node_ids, choose_ports, choose_zookeeper_port


def every_port_is_free(_: int) -> bool:
    return True


def counting_from(first: int) -> Callable[[], int]:
    return iter(range(first, 65_536)).__next__


def test_ports_follow_each_other_when_the_first_is_given() -> None:
    assert choose_ports([1, 2, 3], 9092, Ports(), every_port_is_free, counting_from(20_000)) == {
        1: 9092,
        2: 9093,
        3: 9094,
    }


def test_start_is_refused_with_the_ports_in_use_when_the_first_is_given() -> None:
    with pytest.raises(ClusterError, match="ports 9093, 9094 are in use"):
        choose_ports([1, 2, 3], 9092, Ports(), lambda port: port < 9093, counting_from(20_000))


def test_start_is_refused_when_the_ports_end_too_early() -> None:
    with pytest.raises(ClusterError, match="no port 65537"):
        choose_ports([1, 2, 3], 65_535, Ports(), every_port_is_free, counting_from(20_000))


def test_ports_stay_when_the_cluster_starts_again() -> None:
    last = Ports({1: 7001, 2: 7002}, 7000)
    assert choose_ports([1, 2], 0, last, every_port_is_free, counting_from(20_000)) == dict(last.brokers)


def test_broker_moves_alone_when_its_port_was_taken_meanwhile() -> None:
    last = Ports({1: 7001, 2: 7002, 3: 7003})
    assert choose_ports([1, 2, 3], 0, last, lambda port: port != 7002, counting_from(20_000)) == {
        1: 7001,
        2: 20_000,
        3: 7003,
    }


@given(
    st.integers(1, 9),
    st.dictionaries(st.integers(1, 9), st.integers(1, 20)),
    st.one_of(st.none(), st.integers(1, 20)),
    st.sets(st.integers(1, 20)),
)
def test_all_ports_are_different_and_free_when_chosen(
    brokers: int, remembered: dict[int, int], zookeeper: int | None, taken: set[int]
) -> None:
    def is_free(port: int) -> bool:
        return port not in taken

    def find_free() -> Callable[[], int]:
        return iter([port for port in [*range(1, 21), *range(100, 200)] for _ in range(2) if is_free(port)]).__next__

    ids = list(range(1, brokers + 1))
    ports = choose_ports(ids, 0, Ports(remembered, zookeeper), is_free, find_free())
    assert list(ports) == ids
    assert len(set(ports.values())) == brokers
    assert not set(ports.values()) & taken


def test_zookeeper_keeps_its_port_when_the_cluster_starts_again() -> None:
    assert choose_zookeeper_port(Ports({}, 7000), [], every_port_is_free, counting_from(20_000)) == 7000


def test_start_is_refused_when_something_listens_where_zookeeper_did() -> None:
    """It may be our own ZooKeeper, which outlived its parent; a second one on its data would destroy that."""
    with pytest.raises(ClusterError, match="port 7000"):
        choose_zookeeper_port(Ports({}, 7000), [], lambda _: False, counting_from(20_000))


def test_zookeeper_avoids_the_brokers_when_it_chooses() -> None:
    assert choose_zookeeper_port(Ports(), [20_000, 20_001], every_port_is_free, counting_from(20_000)) == 20_002


def test_brokers_are_counted_from_one_when_there_is_no_data_yet() -> None:
    assert choose_node_ids(3, Ports()) == [1, 2, 3]


def test_cluster_grows_when_more_brokers_are_asked_for() -> None:
    assert choose_node_ids(4, Ports({1: 1, 2: 2, 3: 3})) == [1, 2, 3, 4]


def test_start_is_refused_when_fewer_brokers_are_asked_for_than_hold_data() -> None:
    with pytest.raises(ClusterError, match="has 3 brokers"):
        choose_node_ids(2, Ports({1: 1, 2: 2, 3: 3}))


def test_start_is_refused_when_no_broker_is_asked_for() -> None:
    with pytest.raises(ClusterError, match="at least one"):
        choose_node_ids(0, Ports())
