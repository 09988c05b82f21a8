"""The parts of a cluster, whether its brokers are processes or tasks of this one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from penstock.core.properties import ConfigMapping
from penstock.local_cluster.settings import BrokerPlace, changed_properties


class PlacedBroker:
    """The facts about a broker of a cluster that are known from the start."""

    def __init__(self, place: BrokerPlace, properties: dict[str, str]) -> None:
        self._place = place
        self._properties = properties

    def configure(self, config: ConfigMapping) -> None:
        self._properties = changed_properties(self._properties, config)

    @property
    def node_id(self) -> int:
        return self._place.node_id

    @property
    def host(self) -> str:
        return self._place.host

    @property
    def port(self) -> int:
        return self._place.port

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"


class ClusterBroker(Protocol):
    """One broker of a cluster. Its address stays the same over restarts."""

    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def pid(self) -> int | None:
        """None while it does not run, or where it is no process of its own."""

    @property
    def log_path(self) -> Path | None: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def unasked_end(self) -> str:
        """How the broker ended by itself; empty when it did not."""

    def configure(self, config: ConfigMapping) -> None:
        """Settings for its next start, beside those that it has. ClusterError where the broker would refuse them."""

    def spawn(self) -> None:
        """Start without waiting."""

    def wait_until_ready(self) -> None: ...

    def stop(self) -> None:
        """The clean way: leaderships move to other brokers first."""

    def take_over(self) -> None:
        """Ends the broker where another program has started it, so that it can be started here. Raises ClusterError."""

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Members(Protocol):
    """The brokers and the store that they share."""

    @property
    def brokers(self) -> Sequence[ClusterBroker]: ...

    def start(self) -> None:
        """All of them at once. Returns when every broker accepts connections."""

    def stop_store(self) -> None:
        """Cleanly, after the brokers."""

    def end(self) -> None:
        """Ends all that still run, without a report."""
