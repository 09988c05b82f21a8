"""Connections of one executor process: kept between tasks, found by leader. Never pickled, never shared by threads."""

from __future__ import annotations

import math
import ssl
import threading
from collections.abc import Mapping

from penstock.client.addresses import Address, Heard, parse_servers
from penstock.client.credentials import CredentialsError
from penstock.client.resource_cache import ResourceCache
from penstock.client.routes.topology import Topology, metadata_request, refusal_of
from penstock.client.security import ClientSecurity, client_security, kafka_properties, security_settings
from penstock.client.versioned_client import VersionedClient
from penstock.core.config.types import ConfigError
from penstock.core.types import TopicPartition
from penstock.pipelines.options import OptionError, refuse_value
from penstock.pipelines.source.offsets import EARLIEST, LATEST
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

_SOFTWARE = "penstock-spark"
_NOW = 0.0  # what is known does not grow old here
# A worker reads for one query at a time, but outlives queries. Brokers that were closed connect again when asked.
_MOST_CLUSTERS = 8
# The last versions that name topics rather than number them: ids would have to be looked up and kept for nothing here.
_NEWEST_VERSIONS = {FetchRequest: 12, MetadataRequest: 12, ListOffsetsRequest: 7}


class Brokers:
    """The brokers of one cluster as one process knows them. Every method may raise OSError or ApiError."""

    def __init__(self, bootstrap_servers: str, client_id: str, security: tuple[tuple[str, str], ...] = ()) -> None:
        """`security` are librdkafka's settings for TLS and login. Their files are read at the first connection."""
        try:
            self._bootstrap = parse_servers(bootstrap_servers)
        except ValueError:
            accepted = "HOST:PORT, several separated by commas"
            raise refuse_value("kafka.bootstrap.servers", bootstrap_servers, accepted) from None
        self._client_id = client_id
        self._security_settings = dict(security)
        self._security: ClientSecurity | None = None
        self._connections: dict[Address, VersionedClient] = {}
        self._topology = Topology(self._bootstrap, math.inf)  # a leader that has moved says so: nothing grows too old
        self._heard = Heard()

    def leader(self, partition: TopicPartition) -> VersionedClient:
        topic, index = partition
        try:
            address = self._topology.leader(topic, index, _NOW)
        except ApiError:  # the topic, the partition or its leader was not there when a broker was asked last, if it was
            self._learn(topic)
            address = self._topology.leader(topic, index, _NOW)
        return self._connect(address)

    def find_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset that is there, and the one behind the last."""
        connection = self.leader(partition)
        bounds = []
        for position in (EARLIEST, LATEST):
            asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=position)
            topic = ListOffsetsTopic(name=partition.topic, partitions=[asked])
            try:
                answer = connection.request(ListOffsetsRequest(replica_id=-1, topics=[topic]), ListOffsetsResponse)
            except OSError:
                self.drop(connection)
                raise
            answered = answer.topics[0].partitions[0]
            _raise_for(answered.error_code, str(partition))
            bounds.append(answered.offset)
        return bounds[0], bounds[1]

    def forget_leader(self, partition: TopicPartition) -> None:
        self._topology.forget_topic(partition.topic)

    def drop(self, connection: VersionedClient) -> None:
        """Closes a connection that failed, or whose pending answer no caller will take."""
        connection.close()
        self._connections.pop(connection.address, None)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _connect(self, address: Address) -> VersionedClient:
        known = self._connections.get(address)
        if known is None or not known.is_open:
            try:
                known = self._connections[address] = VersionedClient.open(
                    address,
                    client_id=self._client_id,
                    software=_SOFTWARE,
                    security=self._load_security(),
                    newest=_NEWEST_VERSIONS,
                )
            except ssl.SSLError:
                self._security = None  # the authority may have changed: the next attempt reads the files again
                raise
            except OSError as error:
                self._heard.note_failure(address, error)
                raise
            self._heard.note(address, answered=True)
        return known

    def _load_security(self) -> ClientSecurity:
        if self._security is None:
            try:
                self._security = client_security(kafka_properties(self._security_settings))
            except (ConfigError, CredentialsError) as error:
                raise OptionError(f"the connection to the brokers cannot be secured: {error}") from error
        return self._security

    def _learn(self, topic: str) -> None:
        connection = self._connect_any()
        try:
            answer = connection.request(metadata_request([topic]), MetadataResponse)
        except OSError as error:
            self._heard.note_failure(connection.address, error)
            self.drop(connection)
            raise
        self._topology.learn(answer, _NOW)
        refusal = refusal_of(answer, topic)
        if refusal is not None:
            raise refusal

    def _connect_any(self) -> VersionedClient:
        failures = []
        for address in self._topology.candidates(self._heard, self._is_connected):
            try:
                return self._connect(address)
            except OSError as error:
                failures.append(f"{address[0]}:{address[1]} ({error.strerror or error})")
        raise ConnectionError(f"no broker answers at {', '.join(failures)}")

    def _is_connected(self, address: Address) -> bool:
        known = self._connections.get(address)
        return known is not None and known.is_open


def _raise_for(code: int, subject: str) -> None:
    if code != ErrorCode.NONE:
        error = ApiError(ErrorCode(code))
        raise ApiError(error.code, f"{subject}: {error.message}")


# Servers, client id, settings for TLS and login.
_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class _OfThread(threading.local):
    """A worker process has one thread. In a process with several, each has brokers of its own."""

    def __init__(self) -> None:
        self.clusters: ResourceCache[_Key, Brokers] = ResourceCache(_MOST_CLUSTERS, Brokers.close)


_kept = _OfThread()


def brokers_of(settings: Mapping[str, str], client_id: str) -> Brokers:
    """`settings` have librdkafka's names."""
    key = settings["bootstrap.servers"], client_id, security_settings(settings)
    return _kept.clusters.get(key, lambda: Brokers(*key))
