"""`penstock registry`: run a schema registry."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import BOOTSTRAP_VARIABLE, brokers_option

app = typer.Typer(help="Run a schema registry.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def registry() -> None:
    """Run a schema registry."""


@app.command()
def start(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where callers connect (listeners); port 0 takes a free one.", show_default=False
        ),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        brokers_option(
            f"Brokers to start from (kafkastore.bootstrap.servers).  [default: ${BOOTSTRAP_VARIABLE} or localhost:9092]"
        ),
    ] = None,
    command_config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Property file with client settings, as Kafka's tools take it.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="The registry's settings; Confluent's own file will do.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; beats everything else.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="May be open to everybody on an address other than loopback.")
    ] = False,
) -> None:
    """Start a schema registry in the foreground; SIGTERM or Ctrl-C stops it.

    It keeps everything in the topic _schemas of the brokers, Penstock's or Apache Kafka's. Several instances with the
    same brokers elect a leader; each takes reads and writes.
    """  # fmt: skip
    from penstock.cli.services.registry_start import start_registry
    from penstock.cli.services.start_options import RegistryOptions

    options = RegistryOptions(listen, bootstrap_server, command_config, config, tuple(set_ or ()), insecure)
    raise typer.Exit(start_registry(options))
