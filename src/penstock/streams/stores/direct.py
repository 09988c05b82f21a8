"""Stores read from their changelogs by the caller's own process: no server, and a copy for as long as it is open.

Opening waits until the changelogs were read to their ends; then they are followed, on a thread of its own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from penstock.client.brokers import Brokers
from penstock.client.security import client_security, kafka_properties
from penstock.core.clock import SystemClock
from penstock.core.loops import LoopThread
from penstock.protocol.errors import ApiError
from penstock.streams.stores.answers import row_of as shown_row
from penstock.streams.stores.answers import state_of as shown_state
from penstock.streams.stores.answers import window_of
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.keys import Cursor, NotJsonError, key_of
from penstock.streams.stores.replica import Replica, ReplicaError, Subject
from penstock.streams.stores.rows import (
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
from penstock.streams.stores.settings import check_application, servers_of
from penstock.streams.stores.store_queries import Patience
from penstock.streams.stores.store_reader import Found, KeyRange, Moment, Page, TimeRange

T = TypeVar("T")
_LISTING_S: Final = 5.0
_PATIENCE_S: Final = 10.0


class DirectStores(StoreSource):
    """Raises StoreError."""

    def __init__(
        self,
        application: str,
        bootstrap_servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        only: Iterable[str] = (),
    ) -> None:
        """Raises ConfigError, CredentialsError and OSError too."""
        check_application(application)
        servers = servers_of(bootstrap_servers)
        security = client_security(kafka_properties(settings or {}))
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-stores-")
        self._thread = LoopThread("stores")
        self._brokers = Brokers(servers, security, client_id="penstock-stores", patience_s=_PATIENCE_S)
        self._replica: Replica | None = None
        try:
            self._thread.call(self._open(application, frozenset(only)))
        except BaseException:
            self.close()
            raise

    async def _open(self, application: str, only: frozenset[str]) -> None:
        try:
            told = await self._brokers.metadata([])
        except ApiError as error:
            raise StoreError(503, f"the brokers refuse: {error.message}") from None
        subject = Subject(application, told.cluster_id or "unknown", only)
        try:
            self._replica = await Replica.open(
                self._brokers, subject, Path(self._directory.name), SystemClock().now_ms, _LISTING_S
            )
            await self._replica.wait_ready_or_failed()
        except ReplicaError as error:
            raise StoreError(500, str(error)) from None

    def close(self) -> None:
        if self._replica is not None:
            self._thread.call(self._replica.close())
            self._replica = None
        self._thread.call(self._brokers.close())
        self._thread.stop()
        self._directory.cleanup()

    # ------------------------------------------------------------------------------------ questions

    def stores(self) -> list[StoreState]:
        stores = self._open_replica.follower.stores
        return [state_of(_plain(shown_state(each))) for _, each in sorted(stores.items())]

    def get_many(
        self,
        store: str,
        keys: Sequence[Any],
        *,
        min_position: Mapping[int, int] | None = None,
        wait_s: float | None = None,
    ) -> list[Row | None]:
        patience = Patience(min_position or {}, wait_s)

        def ask(part: Sequence[Any]) -> list[Row | None]:
            try:
                stored = [key_of(key) for key in part]
            except NotJsonError as error:
                raise StoreError(400, f"a key is no JSON: {error}") from None
            moment, found = self._ask(self._open_replica.queries.get_all(store, stored, patience))
            return [None if each is None else _row(shown_row(each), moment) for each in found]

        return ask_in_parts(ask, keys)

    def range(
        self, store: str, *, first: Any = None, last: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row]:
        wanted = KeyRange(text_of(first), text_of(last), prefix)
        queries = self._open_replica.queries

        def ask(size: int, after: Cursor | None) -> tuple[list[Row], Cursor | None]:
            return _rows_of(self._ask(queries.keys(store, wanted, size, after, Patience({}))), shown_row)

        return ask_by_pages(ask, limit)

    def windows(
        self, store: str, key: Any = None, *, start_ms: int | None = None, end_ms: int | None = None
    ) -> Iterator[Row]:
        usual = TimeRange()
        times = TimeRange(usual.first_ms if start_ms is None else start_ms, usual.last_ms if end_ms is None else end_ms)
        queries = self._open_replica.queries

        def ask(size: int, after: Cursor | None) -> tuple[list[Row], Cursor | None]:
            page = self._ask(queries.windows(store, text_of(key), times, size, after, Patience({})))
            return _rows_of(page, window_of)

        return ask_by_pages(ask, None)

    @property
    def _open_replica(self) -> Replica:
        if self._replica is None:
            raise StoreError(503, "the stores are closed")
        return self._replica

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(question)


def _rows_of(page: Page, show: Callable[[Found], dict[str, Any]]) -> tuple[list[Row], Cursor | None]:
    return [_row(show(found), page.moment) for found in page.rows], page.next


def _row(shown: dict[str, Any], moment: Moment) -> Row:
    return row_of(_plain(shown), position_of(json.loads(moment.position)))


def _plain(shown: dict[str, Any]) -> Any:
    """As a client of the server reads it, so that both ways give the same."""
    return json.loads(msgspec.json.encode(shown))
