"""`penstock rest`: run the REST proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.errors import UsageError
from penstock.cli.options import BOOTSTRAP_VARIABLE, brokers_option
from penstock.cli.services.start_properties import start_properties

app = typer.Typer(
    help="Run the REST proxy: produce, consume and administer over HTTP.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def rest() -> None:
    """Run the REST proxy: produce, consume and administer over HTTP."""


@app.command()
def start(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where callers connect (listeners); port 0 takes a free one. [default: 127.0.0.1:8082]",
        ),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        brokers_option(f"Brokers to begin with (bootstrap.servers).  [default: ${BOOTSTRAP_VARIABLE}]"),
    ] = None,
    registry: Annotated[
        str | None, typer.Option(metavar="URL", help="The schema registry (schema.registry.url).")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Property file with client settings, as Kafka's tools take it (client.*)."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A kafka-rest.properties file, as Confluent's proxy reads it.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; beats everything else.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Open to everybody, also on an address other than loopback.")
    ] = False,
) -> None:
    """Start the REST proxy in the foreground; SIGTERM or Ctrl-C shuts it down cleanly."""
    from penstock.core.config.types import ConfigError

    output.warn_of_login(registry, "Write schema.registry.url into the file given to --config.")
    try:
        named = {
            "listeners": listen,
            "bootstrap.servers": bootstrap_server,
            "schema.registry.url": registry,
            "penstock.http.insecure": "true" if insecure else None,
        }
        properties = start_properties(
            config, command_config, named, set_, client_prefix="client.", servers="bootstrap.servers"
        )
        code = _run(properties)
    except ConfigError as error:
        raise UsageError(error.message, "docs/guides/rest-proxy.md lists the settings.") from None
    raise typer.Exit(code)


def _run(properties: Mapping[str, str]) -> int:
    from penstock.core.extras import require

    require("rest", "penstock rest start")
    from penstock.http.service_process import run_service
    from penstock.rest.server import NAME, RestServer
    from penstock.rest.settings import RestSettings

    settings = RestSettings.of(properties)
    return run_service(NAME, settings, lambda: RestServer(settings))
