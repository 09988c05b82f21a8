"""`penstock zookeeper`: run the ZooKeeper that keeps a cluster's metadata, and say who may read and change them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.errors import UsageError

app = typer.Typer(
    help="Run the ZooKeeper that keeps a cluster's metadata.", no_args_is_help=True, rich_markup_mode=None
)

_DEFAULT_DATA = "./penstock-zookeeper"


@app.callback()
def zookeeper() -> None:
    """Run the ZooKeeper that keeps a cluster's metadata."""


@app.command()
def start(
    data: Annotated[str, typer.Option(metavar="DIR", help="Where it keeps its files.")] = _DEFAULT_DATA,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Where brokers connect.")] = 2181,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    ensemble: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT:PORT,...",
            help="All servers of the ensemble, each with the port for its peers and that for elections.",
        ),
    ] = None,
    id_: Annotated[
        int, typer.Option("--id", min=1, max=255, help="Which server of the ensemble this is, counted from 1.")
    ] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A line for ZooKeeper's own zoo.cfg.")
    ] = None,
) -> None:
    """Start a ZooKeeper in the foreground, from the jars that Spark brings; SIGTERM or Ctrl-C stops it.

    It needs Java and the extra `penstock[cluster]`. Brokers find it by zookeeper.connect. Sessions may be as short as
    1000 ms, so that others notice soon when a broker is gone.
    """
    from penstock.cli.zookeeper_start import ZooKeeperOptions, run_zookeeper

    raise typer.Exit(run_zookeeper(ZooKeeperOptions(data, host, port, ensemble, id_, tuple(set_ or ()))))


@app.command()
def guard(
    config: Annotated[
        Path, typer.Option(metavar="FILE", help="A broker's properties: zookeeper.connect, its login, and set.acl.")
    ],
    open_: Annotated[bool, typer.Option("--open", help="The other way: let everybody read and change all.")] = False,
) -> None:
    """Give all that brokers have written the access lists that zookeeper.set.acl gives to what they write from now on.

    Brokers may run; all of them need zookeeper.set.acl=true before, or false with --open.
    """
    from penstock.cli.access.zookeeper import give_access_lists, read_store_config

    settings = read_store_config(None, config)
    if settings.zookeeper.zookeeper_set_acl is open_:
        wanted = "false" if open_ else "true"
        raise UsageError(
            f"zookeeper.set.acl is not {wanted} in {config}", "Restart the brokers with that setting first."
        )
    count = give_access_lists(settings)
    output.note(
        f"{count} nodes are {'open to everybody' if open_ else 'for the brokers; others read what is no secret'}."
    )
