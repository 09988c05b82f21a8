"""Reads the rows of stores, in Python: over HTTP, or from the changelog itself.

client = StoreClient("http://localhost:8084")                     # several servers: separated by commas
client.get("per-country", "DE")                                   # Row(key="DE", value={"count": 3}, ...) or None
with open_store("payments", "per-country", bootstrap_servers="localhost:9092") as store:
    store.get("DE"), list(store.range(prefix="D")), list(store.windows("DE", start_ms=0))
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.client.registry.errors import RegistryAnswerError, RegistryClientError
from penstock.client.registry.settings import URL, RegistrySettings
from penstock.client.registry.transport import Query, RegistryTransport, path_of
from penstock.client.retries import RetryPolicy
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.rows import (
    OneStore,
    Row,
    StoreSource,
    StoreState,
    ask_by_pages,
    ask_in_parts,
    position_of,
    row_of,
    state_of,
    text_of,
)

__all__ = ["OneStore", "Row", "StoreClient", "StoreError", "StoreSource", "StoreState", "open_store"]

# The server waits for a minute at most; its answer comes after that.
_TIMEOUT_S: Final = 70.0
# A server that is not ready gets one request: the caller decides how long to wait. The next server is tried at once.
_ONCE: Final = RetryPolicy(patience_s=0, first_pause_s=0, longest_pause_s=0, attempts=1)
# Segments of a path that mean something else.
_NO_SEGMENTS: Final = ("", ".", "..")
_LOGINS: Final = ("basic.auth.", "bearer.auth.", "sasl.")


class StoreClient(StoreSource):
    """For several threads. Connections are kept, and the server that answered last gets the first request.
    `settings`: `basic.auth.user.info` (user:password), `bearer.auth.token`, `ssl.*`. Raises StoreError."""

    def __init__(self, url: str, settings: Mapping[str, str] | None = None) -> None:
        """Opens no connection yet. Raises ConfigError."""
        given = settings or {}
        properties = {name: text for name, text in given.items() if name.startswith(_LOGINS)}
        properties |= {f"schema.registry.{name}": text for name, text in given.items() if name.startswith("ssl.")}
        read = RegistrySettings.of_properties({**properties, URL: url})
        self._transport = RegistryTransport(dataclasses.replace(read, timeout_s=_TIMEOUT_S), retries=_ONCE)

    def stores(self) -> list[StoreState]:
        return [state_of(each) for each in self._get("/stores", {})["stores"]]

    def get_many(
        self,
        store: str,
        keys: Sequence[Any],
        *,
        min_position: Mapping[int, int] | None = None,
        wait_s: float | None = None,
    ) -> list[Row | None]:
        more: dict[str, Any] = {}
        if min_position:
            more["min_position"] = {str(partition): offset for partition, offset in min_position.items()}
        if wait_s is not None:
            more["wait"] = wait_s

        def ask(part: Sequence[Any]) -> list[Row | None]:
            try:
                found = self._transport.post(path_of("stores", store, "keys"), {"keys": list(part), **more})
            except RegistryClientError as error:
                raise _explained(error) from None
            position = position_of(found["position"])
            return [None if row is None else row_of(row, position) for row in found["rows"]]

        return ask_in_parts(ask, keys)

    def range(
        self, store: str, *, first: Any = None, last: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row]:
        """Requests each page when the caller needs it. Each page is of one moment, all of them together are not."""
        query = {"from": text_of(first), "to": text_of(last), "prefix": prefix}
        return self._pages(path_of("stores", store, "keys"), query, "rows", limit)

    def windows(
        self, store: str, key: Any = None, *, start_ms: int | None = None, end_ms: int | None = None
    ) -> Iterator[Row]:
        text = None if key is None else json.dumps(key) if key in _NO_SEGMENTS else text_of(key)
        path = path_of("stores", store, "windows", *([] if text is None else [text]))
        return self._pages(path, {"from": start_ms, "to": end_ms}, "windows", None)

    def close(self) -> None:
        self._transport.close()

    def _pages(self, path: str, query: Query, name: str, limit: int | None) -> Iterator[Row]:
        def ask(size: int, after: str | None) -> tuple[list[Row], str | None]:
            page = self._get(path, {**query, "limit": size, "after": after})
            position = position_of(page["position"])
            return [row_of(row, position) for row in page[name]], page["next"]

        return ask_by_pages(ask, limit)

    def _get(self, path: str, query: Query) -> Any:
        try:
            return self._transport.get(path, query)
        except RegistryClientError as error:
            raise _explained(error) from None


def _explained(error: RegistryClientError) -> StoreError:
    if isinstance(error, RegistryAnswerError):
        return StoreError(error.status, error.message.replace("the registry answers", "the server answers"))
    reason = str(error).replace("no schema registry answers", "no server of stores answers")
    return StoreError(503, reason, "Start one: penstock streams serve APP")


def open_store(
    application: str,
    store: str,
    *,
    url: str | None = None,
    bootstrap_servers: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> OneStore:
    """By `url`: from a server (`penstock streams serve`). By `bootstrap_servers`: from the changelog itself, which
    takes as long as it is large; `settings` are of the client, by Kafka's names or librdkafka's."""
    if url:
        return OneStore(StoreClient(url, settings), store)
    if not bootstrap_servers:
        raise ValueError("either url or bootstrap_servers is needed")
    from penstock.streams.stores.direct import DirectStores  # a client of a server does without

    return OneStore(DirectStores(application, bootstrap_servers, settings, only=[store]), store)
