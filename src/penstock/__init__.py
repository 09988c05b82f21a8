"""Penstock: event streaming in Python that any Kafka client can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """The broker is imported when it is first used: the command line and the clients of a registry do not need it."""
    if name in _MODULES:
        import importlib

        try:
            return getattr(importlib.import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            from penstock.core.extras import explained

            raise explained(error, f"penstock.{name}") from error
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
