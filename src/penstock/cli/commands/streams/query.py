"""`penstock streams query`: ask for rows of a store, of a server or of the changelog itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.commands.streams.reference import find_application
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    AsJson,
    brokers_option,
    read_client_properties,
    with_groups,
)
from penstock.cli.times import TIME_FORMS, parse_time_ms

if TYPE_CHECKING:
    from penstock.streams.stores.rows import Row, StoreSource

_USUAL_ROWS = 100
_NOT_FOUND = 404
_STORES_HINT = "`penstock streams query APP` lists the stores; a store is there once the application has run."


@dataclass(frozen=True, slots=True)
class QueryOptions:
    first: Annotated[
        str | None, typer.Option("--from", help=f"The first key; with --windows the first start: {TIME_FORMS}.")
    ] = None
    last: Annotated[str | None, typer.Option("--to", help="The last key, or start; included.")] = None
    prefix: Annotated[str | None, typer.Option(help="What keys begin with.")] = None
    windows: Annotated[bool, typer.Option("--windows", "--window", help="Windows of KEY, or of all keys.")] = False
    limit: Annotated[int, typer.Option(min=1, help="The most rows.")] = _USUAL_ROWS
    min_position: Annotated[
        str | None, typer.Option(metavar="P:OFFSET,...", help="Wait until these offsets are read, for 5 s at most.")
    ] = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    url: Annotated[str | None, typer.Option(metavar="URL", help="A server: penstock streams serve.")] = None
    bootstrap_server: Annotated[
        str | None,
        brokers_option(
            "Without --url: brokers, to read the changelog itself.  "
            f"[default: ${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP}]"
        ),
    ] = None
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Property file with client settings, as Kafka's tools take it.")
    ] = None


@with_groups
def query(
    application: Annotated[
        str, typer.Argument(metavar="APP", help="An application id, or FILE[:NAME] of an application.")
    ],
    options: QueryOptions,
    source_options: SourceOptions,
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="Without it: the stores.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Text, or JSON. Without it: rows.", show_default=False)
    ] = None,
) -> None:
    """Ask for rows of a store: one KEY, a range of keys, or windows."""
    if key is not None and not options.windows and (options.first or options.last or options.prefix):
        raise UsageError("a key and a range are two questions", "Ask one of them.")
    with _store_errors():
        name = find_application(application).id
        with _opened(name, store, source_options) as source:
            _answer(source, name, store, key, options)


def _answer(source: StoreSource, application: str, store: str | None, key: str | None, options: QueryOptions) -> None:
    if store is None:
        _print_stores(source, application, options.as_json)
    elif options.windows:
        start, end = (
            None if text is None else parse_time_ms(text, _now_ms()) for text in (options.first, options.last)
        )
        found = source.windows(store, key, start_ms=start, end_ms=end)
        _print_rows(list(islice(found, options.limit)), options.as_json)
    elif key is None:
        rows = source.range(store, first=options.first, last=options.last, prefix=options.prefix, limit=options.limit)
        _print_rows(list(rows), options.as_json)
    else:
        _print_one(_find(source, store, key, options.min_position), store, key, options.as_json)


@contextmanager
def _opened(application: str, store: str | None, options: SourceOptions) -> Iterator[StoreSource]:
    settings = {} if options.command_config is None else read_client_properties(options.command_config)
    named = settings.pop("bootstrap.servers", None)
    servers = options.bootstrap_server or named or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    from penstock.streams.stores.client import StoreClient
    from penstock.streams.stores.direct import DirectStores

    source: StoreSource
    if options.url is not None:
        source = StoreClient(options.url, settings)
    else:
        source = DirectStores(application, servers, settings, only=[] if store is None else [store])
    try:
        yield source
    finally:
        source.close()


def _find(source: StoreSource, store: str, text: str, min_position: str | None) -> Row | None:
    """The text as a string, then as JSON: as a server reads a URL."""
    from penstock.streams.stores.positions import parse_position

    position = parse_position(min_position)
    keys: list[Any] = [text]
    with suppress(ValueError):
        keys.append(json.loads(text))
    return next((row for row in source.get_many(store, keys, min_position=position) if row is not None), None)


@contextmanager
def _store_errors() -> Iterator[None]:
    from penstock.client.credentials import CredentialsError
    from penstock.core.config.types import ConfigError
    from penstock.streams.stores.errors import StoreError

    try:
        yield
    except StoreError as error:
        code = ExitCode.UNREACHABLE if error.status == 503 else ExitCode.FAILURE
        hint = _STORES_HINT if error.status == _NOT_FOUND else error.hint
        raise CliError(error.message, hint, code) from None
    except (ConfigError, CredentialsError) as error:
        told = (
            str(error).replace("schema.registry.url", "--url").replace("of a registry", "of `penstock streams serve`")
        )
        raise UsageError(told, "Check --url and the file given to --command-config.") from None


def _print_stores(source: StoreSource, application: str, as_json: bool) -> None:
    stores = source.stores()
    if not stores:
        raise CliError(
            f"the application {application} has no stores",
            "A store is there once the application has run. Check the id of the application and the brokers.",
        )
    if as_json:
        output.print_json([asdict(each) for each in stores])
        return
    table = output.Table(["STORE", "STATE", ">ROWS", ">LAG", "TOPIC"])
    for each in stores:
        table.add(each.name, "ready" if each.is_ready else "restoring", each.rows, each.lag, each.topic)
    output.print_table(table)


def _print_one(row: Row | None, store: str, key: str, as_json: bool) -> None:
    if row is None:
        raise CliError(f"the store {store} has no key {key}", "Without a key the command lists rows.")
    if as_json:
        output.print_json(_document(row))
    else:
        _print_rows([row], as_json=False)


def _print_rows(rows: list[Row], as_json: bool) -> None:
    if as_json:
        output.print_json([_document(row) for row in rows])
        return
    is_windowed = any(row.start_ms is not None for row in rows)
    table = output.Table(["KEY", *(["START", "END"] if is_windowed else []), "VALUE", "TIMESTAMP"])
    for row in rows:
        window = [_time(row.start_ms), _time(row.end_ms)] if is_windowed else []
        table.add(_compact(row.key), *window, _compact(row.value), _time(row.timestamp_ms))
    output.print_table(table, "There are no rows.")


def _document(row: Row) -> dict[str, Any]:
    shown = {name: value for name, value in asdict(row).items() if value is not None or name in ("key", "value")}
    return shown | {"value": row.value.hex()} if isinstance(row.value, bytes) else shown


def _compact(value: Any) -> str:
    if isinstance(value, str):
        return value
    return value.hex() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _time(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
