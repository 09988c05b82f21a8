"""Asks for the rows of a store, in Python: over HTTP, or from the changelog itself.

client = StoreClient("http://localhost:8084")
client.get("per-country", "DE")                                   # Row(key="DE", value={"count": 3}, ...) or None
with open_store("payments", "per-country", bootstrap_servers="localhost:9092") as store:
    store.get("DE"), list(store.range(prefix="D")), list(store.windows("DE", start_ms=0))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from penstock.streams.stores.rows import Row, StoreState


class StoreSource(Protocol):
    """Stores of one application. `min_position` (partition: offset) waits for up to `wait_s` until the store has read
    everything before these offsets; StoreError if it has not."""

    def stores(self) -> list[StoreState]: ...

    def get(
        self, store: str, key: Any, *, min_position: Mapping[int, int] | None = None, wait_s: float | None = None
    ) -> Row | None: ...

    def get_many(
        self,
        store: str,
        keys: Sequence[Any],
        *,
        min_position: Mapping[int, int] | None = None,
        wait_s: float | None = None,
    ) -> list[Row | None]: ...

    def range(
        self, store: str, *, first: Any = None, last: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row]:
        """In the order of keys, both ends included."""
        ...

    def windows(self, store: str, key: Any, *, start_ms: int | None = None, end_ms: int | None = None) -> Iterator[Row]:
        """Windows of a key that begin from `start_ms` to `end_ms`, both included, the oldest first."""
        ...

    def close(self) -> None: ...


class OneStore:
    """One store of a source: what `app.query` returns."""

    def __init__(self, source: StoreSource, store: str) -> None:
        self._source = source
        self._store = store

    def get(self, key: Any, **more: Any) -> Row | None:
        return self._source.get(self._store, key, **more)

    def get_many(self, keys: Sequence[Any], **more: Any) -> list[Row | None]:
        return self._source.get_many(self._store, keys, **more)

    def range(self, **more: Any) -> Iterator[Row]:
        return self._source.range(self._store, **more)

    def windows(self, key: Any, **more: Any) -> Iterator[Row]:
        return self._source.windows(self._store, key, **more)

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    application: str,
    store: str,
    *,
    url: str | None = None,
    bootstrap_servers: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> OneStore:
    """By `url`: asks a server (`penstock streams serve`). By `bootstrap_servers`: reads the changelog itself, which
    takes as long as it is large; `settings` are of the client, by Kafka's names."""
    raise NotImplementedError
