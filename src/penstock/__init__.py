"""Penstock: event streaming in Python that any Kafka client can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.embedded import AsyncBroker, Broker

__all__ = ["AsyncBroker", "Broker"]


def __getattr__(name: str) -> Any:
    """The broker is imported when it is first used: the command line and the clients of a registry do not need it."""
    if name in __all__:
        from penstock import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
