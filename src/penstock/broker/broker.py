"""The parts of a running broker, for the code that starts, watches and stops the broker.

A handler does not take the whole broker: each module of handlers declares a port, which is a Protocol with the parts
that its handlers use. The API table takes a handler only if a broker has all parts that its port names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from penstock.broker.authorizer import Authorizer
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.metadata_answers import MetadataAnswers
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.moves import Moves
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.peers.peer_requests import Ask, no_peers
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_admission import TransactionAdmission
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.schema_checks.checks import SchemaChecks
from penstock.broker.served_versions import ServedVersions
from penstock.broker.session import Reply, Session
from penstock.broker.slices import Slices
from penstock.broker.topic_creation import TopicCreation
from penstock.cluster.metadata import Metadata
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.log.directories.log_directories import LogDirectories
from penstock.protocol.message import Buffer
from penstock.security.audit.events import NO_AUDIT, Auditor
from penstock.security.tokens.by_hmac import TokensByHmac

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.forwarding.forwarder import Forwarding
    from penstock.broker.login.logins import Logins
    from penstock.broker.peers.controller_port import ControllerPort
    from penstock.broker.peers.presence import Presence
    from penstock.broker.peers.shutdowns import Shutdowns


@dataclass(slots=True, eq=False, repr=False)
class Broker:
    node_id: int
    config: BrokerConfig
    clock: Clock
    metrics: BrokerMetrics
    authorizer: Authorizer
    quotas: ClientQuotas
    served_versions: Sequence[ServedVersions]
    slices: Slices
    metadata: Metadata
    directories: LogDirectories
    partitions: Partitions
    flusher: Flusher
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupRuntime
    transactions: TransactionRuntime
    admission: TransactionAdmission
    topic_creation: TopicCreation
    moves: Moves
    schema_checks: SchemaChecks
    chance: Random
    metadata_answers: MetadataAnswers = field(default_factory=MetadataAnswers)
    # Whether there may be other brokers. Without them the broker neither serves nor lists the APIs between brokers.
    has_peers: bool = False
    # These are None on a standalone broker, which is the controller itself.
    controller_api: ControllerPort | None = None
    shutdowns: Shutdowns | None = None
    forwarding: Forwarding | None = None
    # Serves a request that another broker has forwarded. The dispatcher, which is made after the broker, sets this.
    handle_forwarded: Callable[[Session, Buffer], Reply | Awaitable[Reply]] | None = None
    ask: Ask = no_peers  # sends requests to other brokers
    presence: Presence | None = None  # the state of the other brokers
    # Raises ConfigError for settings whose files this broker cannot use; None where no setting in use names files.
    check_settings: Callable[[BrokerConfig], Awaitable[None]] | None = None
    auditor: Auditor = NO_AUDIT  # takes the events of logins, denials and changes
    logins: Logins | None = None  # None where no listener has SASL
    # Changes of the metadata use it one after another.
    tokens_by_hmac: TokensByHmac = field(default_factory=TokensByHmac)
    # By listener, the user as which brokers log in, where they log in by a name and a password.
    own_users: Mapping[str, str] = field(default_factory=dict)

    def endpoints(self, listener: str) -> Iterator[tuple[int, str, int, str | None]]:
        """(node id, host, port, rack) of every live broker that has this listener."""
        for registration in self.metadata.image.brokers.values():
            for endpoint in registration.endpoints:
                if endpoint.name == listener:
                    yield registration.node_id, endpoint.host, endpoint.port, registration.rack
