from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.config.broker_config import BrokerConfig
from penstock.security.quotas.entities import IP, Quota
from penstock.security.quotas.rates import Windows
from penstock.server.descriptors import share_descriptors
from penstock.server.limits import connection_bounds, parse_overrides
from penstock.server.net.admission import Admission, AdmissionVerdict, ConnectionBounds

HERE, THERE = "10.0.0.1", "10.0.0.2"
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
ADDRESS_WINDOWS = Windows(burst_count=10)
SERVED, REFUSED = AdmissionVerdict(), AdmissionVerdict(is_refused=True)


def admit(
    admission: Admission, count: int, listener: str = CLIENTS, address: str = HERE, at_ms: int = 0
) -> list[AdmissionVerdict]:
    return [admission.admit(listener, address, at_ms) for _ in range(count)]


class TestNumbers:
    def test_address_has_its_own_bound_when_one_is_given(self) -> None:
        admission = Admission(ConnectionBounds(max_per_address=2, address_overrides={THERE: 1}))
        assert admit(admission, 3) == [SERVED, SERVED, REFUSED]
        assert admit(admission, 2, address=THERE) == [SERVED, REFUSED]
        admission.leave(CLIENTS, HERE)
        assert admit(admission, 2) == [SERVED, REFUSED]

    def test_address_is_counted_over_all_listeners(self) -> None:
        admission = Admission(ConnectionBounds(max_per_address=2))
        assert admit(admission, 1) + admit(admission, 2, BROKERS) == [SERVED, SERVED, REFUSED]

    def test_listener_of_brokers_is_open_when_clients_have_used_up_the_broker(self) -> None:
        admission = Admission(ConnectionBounds(max_connections=2, protected_listener=BROKERS))
        assert admit(admission, 3) == [SERVED, SERVED, REFUSED]
        assert admit(admission, 2, BROKERS) == [SERVED, SERVED]

    def test_listener_has_its_own_bound(self) -> None:
        admission = Admission(ConnectionBounds(listener_connections={CLIENTS: 1}))
        assert admit(admission, 2) == [SERVED, REFUSED]
        assert admit(admission, 2, BROKERS) == [SERVED, SERVED]

    def test_nothing_is_remembered_of_addresses_that_have_left(self) -> None:
        admission = Admission(ConnectionBounds(max_per_address=1))
        for number in range(1_000):
            admission.admit(CLIENTS, str(number), 0)
            admission.leave(CLIENTS, str(number))
        assert not admission._by_address


class TestRates:
    def test_address_is_held_and_closed_when_it_connects_too_fast(self) -> None:
        admission = Admission(ConnectionBounds(windows=ADDRESS_WINDOWS))
        admission.limit_addresses([Quota({IP: HERE}, {"connection_creation_rate": 1.0})])
        assert admit(admission, 10) == [SERVED] * 10
        assert admit(admission, 5) == [AdmissionVerdict(wait_ms=1_000, is_closed_then=True)] * 5
        assert admit(admission, 50, address=THERE) == [SERVED] * 50
        assert admit(admission, 10, at_ms=11_000) == [SERVED] * 10

    def test_default_is_for_each_address_by_itself(self) -> None:
        admission = Admission(ConnectionBounds(windows=ADDRESS_WINDOWS))
        default, own = (
            Quota({IP: None}, {"connection_creation_rate": 1.0}),
            Quota({IP: THERE}, {"connection_creation_rate": 5.0}),
        )
        admission.limit_addresses([default, own])
        assert [
            len([each for each in admit(admission, 60, address=name) if each == SERVED]) for name in (HERE, THERE)
        ] == [10, 50]

    @pytest.mark.parametrize(
        "bounds", [ConnectionBounds(max_creation_rate=10), ConnectionBounds(listener_rates={CLIENTS: 10})]
    )
    def test_connections_wait_for_their_turn_when_there_are_too_many(self, bounds: ConnectionBounds) -> None:
        admission = Admission(bounds)
        waits = [each.wait_ms for each in admit(admission, 113)]
        assert waits == [0] * 110 + [100, 200, 300]
        assert not any(each.is_closed_then for each in admit(admission, 1))

    def test_connection_is_refused_when_its_turn_would_come_too_late(self) -> None:
        admission = Admission(ConnectionBounds(max_creation_rate=10))
        verdicts = admit(admission, 1_000)
        assert verdicts.count(REFUSED) == 1_000 - 110 - 300
        assert admit(admission, 1, at_ms=1_000) == [AdmissionVerdict(wait_ms=29_100)]

    def test_brokers_do_not_wait_behind_clients(self) -> None:
        admission = Admission(ConnectionBounds(max_creation_rate=1, protected_listener=BROKERS))
        admit(admission, 50)
        assert admit(admission, 50, BROKERS) == [SERVED] * 50


class TestConfiguration:
    def test_overrides_name_addresses(self) -> None:
        text = "10.0.0.9:3, localhost:7,[::1]:5,::ffff:10.0.0.8:2,some.name:1"
        assert parse_overrides(text) == {"10.0.0.9": 3, "127.0.0.1": 7, "::1": 5, "10.0.0.8": 2}

    def test_bounds_of_a_listener_are_apart_from_those_of_the_broker(self) -> None:
        config = BrokerConfig.parse(
            {
                "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
                "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
                "inter.broker.listener.name": "BROKERS",
                "max.connections": "100",
                "listener.name.clients.max.connections": "10",
                "listener.name.clients.max.connection.creation.rate": "5",
                "max.connections.per.ip": "3",
                "max.connections.per.ip.overrides": "127.0.0.1:50",
            }
        )
        bounds = connection_bounds(config)
        assert (bounds.max_connections, bounds.listener_connections) == (100, {"CLIENTS": 10})
        assert bounds.listener_rates == {"CLIENTS": 5}
        assert (bounds.max_per_address, bounds.address_overrides) == (3, {"127.0.0.1": 50})
        assert bounds.protected_listener == "BROKERS"

    def test_connections_leave_descriptors_for_logs_when_nobody_gave_a_bound(self) -> None:
        resource = pytest.importorskip("resource")
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        shares, bounds = share_descriptors(most), connection_bounds(BrokerConfig.parse({}))
        assert (bounds.max_connections, bounds.max_per_address) == (shares.connections, shares.connections_of_address)
        assert bounds.max_protected == shares.broker_connections

    @given(st.integers(min_value=64, max_value=2**30))
    def test_shares_leave_descriptors_for_the_rest_when_all_are_taken(self, most: int) -> None:
        shares = share_descriptors(most)
        taken = shares.connections + shares.broker_connections + shares.log_files
        assert taken <= most - min(most // 8, 256)
        assert shares.connections_of_address < shares.connections
        assert shares.connections >= most // 2


def test_brokers_have_a_number_of_their_own_when_clients_have_taken_theirs() -> None:
    admission = Admission(ConnectionBounds(max_connections=2, max_protected=3, protected_listener="BROKERS"))
    assert [admission.admit("CLIENTS", "10.0.0.1", 0).is_refused for _ in range(3)] == [False, False, True]
    assert [admission.admit("BROKERS", "10.0.0.2", 0).is_refused for _ in range(4)] == [False, False, False, True]
    admission.leave("BROKERS", "10.0.0.2")
    assert not admission.admit("BROKERS", "10.0.0.2", 0).is_refused
