"""`penstock broker`: run a broker."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from penstock.cli.broker_options import StartOptions

app = typer.Typer(help="Run a broker.", no_args_is_help=True, rich_markup_mode=None)


class LogFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(enum.StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.callback()
def broker() -> None:
    """Run a broker."""


@app.command()
def start(
    data: Annotated[str | None, typer.Option(metavar="DIR[,DIR]", help="Data directories (log.dirs).")] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where clients connect (listeners); port 0 takes a free one."),
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A server.properties file, as Kafka reads it.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A broker setting; beats everything else.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve /metrics and /healthz there.")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="How log lines look.")] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="From which level lines are logged.")] = None,
    secure: Annotated[
        bool | None,
        typer.Option(
            "--secure/--insecure",
            help="Secure: clients need TLS and a login, certificates and an admin user are made at the first start; "
            "later starts stay secure. Insecure: they do not, and --metrics may be open to everybody on any address.",
        ),
    ] = None,
) -> None:
    """Start a broker in the foreground; SIGTERM or Ctrl-C shuts it down cleanly."""
    from penstock.cli.broker_start import start_broker

    options = StartOptions(
        data,
        listen,
        config,
        tuple(set_ or ()),
        metrics,
        log_format and log_format.value,
        log_level and log_level.value,
        secure is True,
        secure is False,
    )
    raise typer.Exit(start_broker(options))
