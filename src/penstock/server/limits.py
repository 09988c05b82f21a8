"""Limits of clients, kept in step with the metadata: quotas in front of dispatch, bounds of connections.

While there is no quota the sockets call dispatch itself: `Throttling` is put between them when the first quota comes,
or when somebody brings more new producer ids than it may, and taken away with the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.broker.apis import APIS
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Dispatcher
from penstock.broker.quotas.client_quotas import listen_to_nobody
from penstock.broker.quotas.new_producers import hold_nobody_back
from penstock.broker.quotas.throttling import Throttling
from penstock.cluster.image import MetadataImage
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.sections import QuotaSection
from penstock.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from penstock.security.addresses import canonical_host, parse_address
from penstock.security.quotas.entities import IP, Quota, stored_quotas
from penstock.security.quotas.rates import Windows
from penstock.server.descriptors import own_shares
from penstock.server.net.admission import UNBOUNDED, ConnectionBounds
from penstock.server.net.backlog import DEFAULT_MAX_BYTES
from penstock.server.net.listener import KERNEL_TUNING, ConnectionLimits, Handle, TcpListener

if TYPE_CHECKING:  # a broker without logins does without
    from penstock.broker.login.gate import LoginGate

# A port on this machine has no need of a name server.
_LOCAL_NAMES = {"localhost": ("127.0.0.1", "::1")}


class Limiting:
    def __init__(self, broker: Broker, dispatcher: Dispatcher, listeners: Sequence[TcpListener]) -> None:
        self._broker = broker
        self._dispatcher = dispatcher
        self._listeners = listeners
        self.handle: Handle = dispatcher.handle  # what the sockets call, or the gates behind them
        self._gates: Mapping[str, LoginGate] = {}
        for_brokers = [key for key, api in APIS.items() if api.is_for_brokers]
        self._throttling = Throttling(
            broker.quotas,
            dispatcher.handle,
            broker.slices.stopwatch,
            (*for_brokers, WriteTxnMarkersRequest.API_KEY),
            protected_listener(broker.config) if broker.has_peers else None,
        )

    def start(self, gates: Mapping[str, LoginGate]) -> None:
        """`gates` by the names of the listeners where clients log in first."""
        self._gates = gates
        image = self._broker.metadata.image
        self._set_up()
        self.follow(MetadataImage(image.cluster_id), image)
        self._broker.metadata.subscribe(self.follow)
        self._broker.quotas.new_producers.on_owed_changed = self._set_up

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        entities = new.security.entity_configs
        if entities is old.security.entity_configs:
            return
        self._broker.quotas.follow(entities)
        addresses = _address_quotas(entities)
        for listener in self._listeners:
            listener.admission.limit_addresses(addresses)
        self._set_up()

    def _set_up(self) -> None:
        quotas, throttling = self._broker.quotas, self._throttling
        is_active = quotas.is_active
        self._dispatcher.before_reply = throttling.before_reply if is_active else None
        quotas.exempt = throttling.exempt if is_active else listen_to_nobody
        quotas.new_producers.hold_back = throttling.hold_back if is_active else hold_nobody_back
        self.handle = throttling.handle if is_active else self._dispatcher.handle
        for listener in self._listeners:
            gate = self._gates.get(listener.name)
            if gate is None:
                listener.handle_with(self.handle)
            else:
                gate.serve = self.handle
                listener.handle_with(gate.handle)

    def change_config(self, config: BrokerConfig) -> None:
        """A dynamic change of the broker's settings."""
        for listener in self._listeners:
            listener.admission.limit(connection_bounds(config))
            listener.backlog.limit(*backlog_bounds(config))
            listener.limit(connection_limits(config))


def _address_quotas(entities: Mapping[str, Mapping[str, str]]) -> list[Quota]:
    """With addresses in the form that connections have them."""
    found = []
    for names, values in stored_quotas(entities):
        if IP in names:
            address = names[IP]
            found.append(Quota({IP: None if address is None else canonical_host(address)}, values))
    return found


# ------------------------------------------------------------------------------------------- from the configuration


def protected_listener(config: BrokerConfig) -> str | None:
    """The listener that is for brokers alone; None where clients use it as well, because there is no other."""
    return config.inter_broker_listener if len(config.endpoints) > 1 else None


def connection_bounds(config: BrokerConfig) -> ConnectionBounds:
    network, quotas = config.network, config.quotas
    names = [endpoint.name for endpoint in config.endpoints]

    def of_listeners(key: str) -> dict[str, int]:
        """Only what is set for a listener itself: the plain key is that of the broker."""
        prefixed = {name: f"listener.name.{name.lower()}.{key}" for name in names}
        return {name: int(str(config.values[each])) for name, each in prefixed.items() if each in config.values}

    # Unless the owner of the broker says a number, connections leave descriptors for the logs.
    shares = own_shares()
    max_connections, max_per_address = network.max_connections, network.max_connections_per_ip
    max_protected = UNBOUNDED
    if shares is not None:
        max_protected = shares.broker_connections
        max_connections = shares.connections if max_connections == UNBOUNDED else max_connections
        max_per_address = shares.connections_of_address if max_per_address == UNBOUNDED else max_per_address
    return ConnectionBounds(
        max_connections=max_connections,
        max_protected=max_protected,
        max_creation_rate=network.max_connection_creation_rate,
        listener_connections=of_listeners("max.connections"),
        listener_rates=of_listeners("max.connection.creation.rate"),
        max_per_address=max_per_address,
        address_overrides=parse_overrides(network.max_connections_per_ip_overrides),
        protected_listener=protected_listener(config),
        windows=connection_windows(quotas),
    )


def connection_windows(quotas: QuotaSection) -> Windows:
    """As in Kafka an address may connect at once as often as it may in all windows: clients come with many connections,
    and there is no wave that would harm anybody.
    """
    count = quotas.quota_window_num
    return Windows(count, quotas.quota_window_size_seconds * 1000, burst_count=count - 1)


def parse_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`. A name other than localhost has no effect: looking names up takes time that
    the loop does not have, and whoever answers would decide the limit.
    """
    overrides: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        host, _, count = part.rpartition(":")
        for each in _LOCAL_NAMES.get(host, (host.strip("[]"),)):
            address = parse_address(each)
            if address is not None:
                overrides[address] = int(count)
    return overrides


def backlog_bounds(config: BrokerConfig) -> tuple[int, int]:
    """Bytes and number of requests in memory."""
    size = config.network.queued_max_request_bytes
    return size if size > 0 else DEFAULT_MAX_BYTES, config.network.queued_max_requests


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    network = config.network
    return ConnectionLimits(
        max_frame_size=network.socket_request_max_bytes,
        max_idle_ms=network.connections_max_idle_ms,
        send_buffer_size=_if_given(config, "socket.send.buffer.bytes", network.socket_send_buffer_bytes),
        receive_buffer_size=_if_given(config, "socket.receive.buffer.bytes", network.socket_receive_buffer_bytes),
    )


def _if_given(config: BrokerConfig, name: str, size: int) -> int:
    """Kafka's default of 100 KB slows fast networks down. Unless the owner of the broker gave a size, the kernel's own
    tuning is used.
    """
    return size if name in config.static else KERNEL_TUNING
