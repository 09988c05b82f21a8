"""The options of `penstock cluster restart`: how brokers are restarted, and which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

BrokerIds = Annotated[
    list[int] | None, typer.Option("--broker", metavar="ID", help="Only this broker; may be repeated.")
]


@dataclass(frozen=True, slots=True)
class RestartOptions:
    """How brokers are restarted, and which."""

    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of a cluster that `penstock cluster start` runs here.")
    ] = None
    command: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Restarts one broker: {id}, {host} and {port} are replaced."),
    ] = None
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="Say which broker to restart, and wait until somebody has.")
    ] = False
    check: Annotated[
        int | None, typer.Option(metavar="ID", help="Only wait until this broker may stop; 1 where it may not.")
    ] = None
    wait: Annotated[
        int | None, typer.Option(metavar="ID", help="Only wait until this broker is back and all is well.")
    ] = None
    broker: BrokerIds = None
    first: Annotated[int | None, typer.Option("--from", metavar="ID", help="Begin with this broker of the order.")] = (
        None
    )
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="With --data: a setting of these brokers.")
    ] = None
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="How long until all is well again after a broker.")
    ] = 600.0
    may_interrupt: Annotated[
        bool, typer.Option("--may-interrupt", help="Partitions without another replica may stand still.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, but do nothing.")] = False
