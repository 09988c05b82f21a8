from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from penstock.cluster.decisions.placement import place_replicas
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import broker


def image_of(brokers: list[BrokerRegistration], away: list[BrokerRegistration] | None = None) -> MetadataImage:
    here, gone = ({each.node_id: each for each in group} for group in (brokers, away or []))
    return MetadataImage("cluster", brokers=here, away=gone)


@pytest.mark.parametrize("seed", range(5))
def test_everything_goes_to_the_one_broker_when_there_is_one(seed: int) -> None:
    assert place_replicas(image_of([broker(7)]), 3, 1, Random(seed)) == [(7,), (7,), (7,)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("replication_factor", [1, 2, 3, 5])
def test_leaders_and_replicas_are_even_when_brokers_are_alike(seed: int, replication_factor: int) -> None:
    brokers = [broker(node_id) for node_id in range(5)]
    placed = place_replicas(image_of(brokers), 100, replication_factor, Random(seed))
    assert all(len(set(replicas)) == replication_factor for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {20}
    assert set(Counter(node for replicas in placed for node in replicas).values()) == {20 * replication_factor}


@pytest.mark.parametrize("seed", range(5))
def test_what_a_broker_led_is_spread_over_the_others_when_it_fails(seed: int) -> None:
    placed = place_replicas(image_of([broker(node_id) for node_id in range(5)]), 100, 3, Random(seed))
    heirs = Counter(replicas[1] for replicas in placed if replicas[0] == 0)
    assert heirs.keys() == {1, 2, 3, 4}
    assert max(heirs.values()) - min(heirs.values()) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_every_rack_gets_a_replica_when_there_are_as_many_racks_as_replicas(seed: int) -> None:
    brokers = [broker(node_id, f"rack{node_id % 3}") for node_id in range(6)]
    racks = {each.node_id: each.rack for each in brokers}
    placed = place_replicas(image_of(brokers), 60, 3, Random(seed))
    assert all({racks[node] for node in replicas} == {"rack0", "rack1", "rack2"} for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}


@pytest.mark.parametrize("seed", range(5))
def test_no_rack_gets_a_second_replica_before_each_has_one_when_racks_differ_in_size(seed: int) -> None:
    brokers = [broker(0, "small"), *(broker(node_id, "large") for node_id in range(1, 5))]
    placed = place_replicas(image_of(brokers), 20, 3, Random(seed))
    assert all(0 in replicas and len(set(replicas)) == 3 for replicas in placed)


def test_placement_is_refused_when_there_are_too_few_brokers() -> None:
    with pytest.raises(ApiError, match=r"Unable to replicate the partition 2 time\(s\).*only 1 broker") as error:
        place_replicas(image_of([broker(1)]), 1, 2, Random(0))
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_broker_that_is_about_to_stop_gets_a_replica_when_the_others_are_too_few() -> None:
    brokers = [broker(1), broker(2)._replace(is_stopping=True), broker(3)]
    assert {node for replicas in place_replicas(image_of(brokers), 10, 2, Random(0)) for node in replicas} == {1, 3}
    placed = place_replicas(image_of(brokers), 10, 3, Random(0))
    assert {replicas[2] for replicas in placed} == {2}
    with pytest.raises(ApiError, match="only 3 broker"):
        place_replicas(image_of(brokers), 1, 4, Random(0))


@pytest.mark.parametrize("brokers", [[], [broker(1)._replace(is_stopping=True)]])
def test_placement_is_refused_as_by_kafka_when_no_broker_can_lead(brokers: list[BrokerRegistration]) -> None:
    image = image_of(brokers, [broker(3)])
    with pytest.raises(ApiError, match=r"1 time\(s\): All brokers are currently fenced or in controlled") as error:
        place_replicas(image, 1, 1, Random(0))
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


class TestBrokersAreAway:
    @pytest.mark.parametrize("seed", range(5))
    def test_each_partition_is_led_by_a_broker_that_is_up_when_others_are_away(self, seed: int) -> None:
        placed = place_replicas(image_of([broker(1), broker(2)], [broker(3), broker(4)]), 40, 3, Random(seed))
        assert Counter(replicas[0] for replicas in placed) == {1: 20, 2: 20}
        assert all(set(replicas[:2]) == {1, 2} for replicas in placed)
        assert Counter(replicas[2] for replicas in placed) == {3: 20, 4: 20}

    def test_no_broker_that_is_away_gets_a_replica_when_enough_are_up(self) -> None:
        placed = place_replicas(image_of([broker(1, "a"), broker(2, "a")], [broker(3, "b")]), 10, 2, Random(0))
        assert all(set(replicas) == {1, 2} for replicas in placed)

    def test_racks_are_spread_when_brokers_that_are_away_have_to_help(self) -> None:
        image = image_of([broker(1, "a")], [broker(2, "a"), broker(3, "b"), broker(4, "c")])
        assert all(set(replicas) == {1, 3, 4} for replicas in place_replicas(image, 10, 3, Random(0)))

    def test_placement_is_refused_when_too_few_are_registered(self) -> None:
        with pytest.raises(ApiError, match=r"only 3 broker\(s\) are registered") as error:
            place_replicas(image_of([broker(1)], [broker(2), broker(3)]), 1, 4, Random(0))
        assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR

    def test_broker_counts_when_only_its_directories_are_known(self) -> None:
        """An earlier version was the controller when it left."""
        image = MetadataImage("cluster", brokers={1: broker(1)}, directories={1: ("one",), 2: ("two",)})
        assert place_replicas(image, 1, 2, Random(0)) == [(1, 2)]
