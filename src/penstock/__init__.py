"""Penstock: event streaming in Python that any Kafka client can use."""

from __future__ import annotations

from penstock.core.lazy.lazy_names import lazy_names

TYPE_CHECKING = False  # `typing` takes longer to import than this package
if TYPE_CHECKING:
    from penstock.embedded import AsyncBroker, Broker
    from penstock.embedded_registry import AsyncRegistry, Registry
    from penstock.local_cluster.cluster import Cluster

__all__ = ["AsyncBroker", "AsyncRegistry", "Broker", "Cluster", "Registry"]

_MODULES = {
    "AsyncBroker": "penstock.embedded",
    "AsyncRegistry": "penstock.embedded_registry",
    "Broker": "penstock.embedded",
    "Cluster": "penstock.local_cluster.cluster",
    "Registry": "penstock.embedded_registry",
}

if not TYPE_CHECKING:  # the command line and the clients of a registry do not need a broker
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
