"""A broker: where it is, its directories and what is in them, the features it knows."""

from __future__ import annotations

from typing import NamedTuple

# A disk this full needs room now: a broker takes a replica out of service when it cannot write to it.
FULL_SHARE = 0.95


class DirectoryState(NamedTuple):
    path: str
    error: str = ""  # empty: it is in service
    total_bytes: int | None = None  # of its disk
    usable_bytes: int | None = None
    largest: tuple[tuple[str, int], ...] = ()  # the topics that take most of it, and their bytes

    @property
    def full_share(self) -> float | None:
        """Of its disk, between 0 and 1; None where the broker does not tell."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


class ReplicaFiles(NamedTuple):
    """Where a replica is on its broker. The `future` ones are those of a copy on its way to another directory."""

    directory: str | None
    size: int
    future_directory: str | None = None
    future_size: int = 0


class FeatureLevels(NamedTuple):
    name: str
    lowest: int
    highest: int
    finalized: int | None  # the level in force, where the broker tells one


class BrokerState(NamedTuple):
    """A broker that is registered. Where it did not answer, `silence` says why, and what it alone tells is unknown."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    silence: str = ""
    directories: tuple[DirectoryState, ...] = ()
    stored_bytes: int | None = None  # in its replicas; None where it did not tell
    features: tuple[FeatureLevels, ...] = ()
    certificate_left_s: float | None = None  # how long its certificate is still valid; None without TLS

    @property
    def is_alive(self) -> bool:
        """Whether it answered, as far as it was asked."""
        return not self.silence

    @property
    def has_full_disk(self) -> bool:
        return any((each.full_share or 0) > FULL_SHARE for each in self.directories)
