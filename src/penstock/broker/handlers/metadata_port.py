"""The parts of the broker that the handlers of metadata use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.broker.handlers.brokers.forwarding import CallerPort
from penstock.broker.handlers.topics import TopicPort
from penstock.broker.served_versions import ServedVersions

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.peers.presence import Presence


class MetadataPort(CallerPort, TopicPort, Protocol):
    """Metadata creates the topics that clients use, and lists more APIs for brokers than for clients."""

    node_id: int
    presence: Presence | None
    served_versions: Sequence[ServedVersions]

    def endpoints(self, listener: str) -> Iterator[tuple[int, str, int, str | None]]: ...
