"""`penstock streams serve`: answer for the state of an application over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.commands.streams.reference import find_application
from penstock.cli.errors import UsageError
from penstock.cli.options import BOOTSTRAP_VARIABLE, brokers_option, with_groups
from penstock.cli.services.start_properties import start_properties

# Threads that write and threads that answer share one interpreter. Python's 5 ms between turns would be the whole of
# the time that an answer may take.
_TURN_S = 0.0005


@dataclass(frozen=True, slots=True)
class ServeOptions:
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where callers connect (listeners); port 0 takes a free one. [default: 127.0.0.1:8084]",
        ),
    ] = None
    bootstrap_server: Annotated[
        str | None,
        brokers_option(f"Brokers to begin with (bootstrap.servers).  [default: ${BOOTSTRAP_VARIABLE}]"),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where copies of stores are kept. Without it each start reads the changelogs from their beginning.",
        ),
    ] = None
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Property file with client settings, as Kafka's tools take it (client.*)."),
    ] = None
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Property file with settings of the server.")] = (
        None
    )
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Open to everybody, also on an address other than loopback.")
    ] = False


@with_groups
def serve(
    application: Annotated[
        str, typer.Argument(metavar="APP", help="An application id, or FILE[:NAME] of an application.")
    ],
    options: ServeOptions,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; beats everything else.")
    ] = None,
) -> None:
    """Answer for the state of an application over HTTP, until SIGTERM or Ctrl-C.

    Reads its changelog topics; neither the application nor Spark has to run. Several servers may run.
    """
    from penstock.core.config.types import ConfigError

    if options.data is not None and options.data.is_file():
        raise UsageError(f"{options.data} is a file, not a directory", "--data names a directory.")
    found = find_application(application)
    try:
        named = {
            "application.id": found.id,
            "penstock.streams.stores": ",".join(found.stores) or None,
            "listeners": options.listen,
            "bootstrap.servers": options.bootstrap_server,
            "penstock.streams.data.dir": None if options.data is None else str(options.data),
            "penstock.http.insecure": "true" if options.insecure else None,
        }
        properties = start_properties(
            options.config, options.command_config, named, set_, client_prefix="client.", servers="bootstrap.servers"
        )
        code = _run(properties)
    except ConfigError as error:
        raise UsageError(error.message, "docs/guides/streams-state.md lists the settings.") from None
    raise typer.Exit(code)


def _run(properties: Mapping[str, str]) -> int:
    from penstock.core.extras import require

    require("registry", "penstock streams serve")
    from penstock.http.service_process import run_service
    from penstock.streams.stores.server import NAME, StoresServer
    from penstock.streams.stores.settings import StoresSettings

    settings = StoresSettings.of(properties)
    sys.setswitchinterval(_TURN_S)
    return run_service(NAME, settings, lambda: StoresServer(settings))
