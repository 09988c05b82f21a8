"""Where brokers are, as people write it, and which of them answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from penstock.core.words.failure_text import MAX_PORT, PORTS_END

Address: TypeAlias = tuple[str, int]
DEFAULT_PORT = 9092
# Of the patience with an address: for one that was silent the last time.
_SILENT_SHARE = 0.2


def parse_servers(text: str) -> list[Address]:
    """`host`, `host:port`, `[::1]:9092`, `PLAINTEXT://host:port`, comma-separated. ValueError names the part that is
    none of these."""
    servers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        address = part.partition("://")[2] or part
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):
            host, port = address, str(DEFAULT_PORT)
        if host and port.isdigit() and int(port) > MAX_PORT:
            raise ValueError(f"{part!r}: there is no port {port}, {PORTS_END}")
        if not host or not port.isdigit() or int(port) == 0:
            raise ValueError(f"{part!r} is not the address of a broker")
        servers.append((host.strip("[]"), int(port)))
    return servers


def format_address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Heard:
    """Which addresses answered the last time they were asked, in one run of a program. A run asks many things: a broker
    that hangs is waited for once, and then asked last and not for long. One that comes back counts as any other.
    """

    def __init__(self) -> None:
        self._answered: dict[Address, bool] = {}

    def note(self, address: Address, *, answered: bool) -> None:
        self._answered[address] = answered

    def note_failure(self, address: Address, error: Exception) -> None:
        """Only a time that ran out makes a server a silent one. A refused connection, or an error for an answer, costs
        nothing: its broker keeps its place and its time for the next attempt."""
        if isinstance(error, TimeoutError):
            self.note(address, answered=False)

    def is_silent(self, address: Address) -> bool:
        return not self._answered.get(address, True)

    def order(self, addresses: Iterable[Address]) -> list[Address]:
        """Those that answered, then those that nobody asked yet, then the silent ones."""
        return sorted(addresses, key=lambda address: (self.is_silent(address), address not in self._answered))

    def patience(self, address: Address, patience_s: float) -> float:
        """How long to wait for this one."""
        return patience_s * _SILENT_SHARE if self.is_silent(address) else patience_s
