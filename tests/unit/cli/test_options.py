"""What `on_cluster` makes of a command's parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.options import on_cluster


@dataclass(frozen=True, slots=True)
class Size:
    width: Annotated[int, typer.Option("--width")] = 3
    height: int = 4


def command(seen: list[object]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @on_cluster
    def draw(cluster: ClusterClient, name: str, *, before: bool = False, size: Size, after: bool = False) -> None:
        seen.extend((cluster.bootstrap_servers, name, before, size, after))

    return app


def test_a_group_of_options_is_given_whole_when_some_of_them_are_said() -> None:
    seen: list[object] = []
    arguments = ["a", "--width", "7", "--after", "--bootstrap-server", "there:1"]
    typer.main.get_command(command(seen)).main(arguments, standalone_mode=False)
    assert seen == ["there:1", "a", False, Size(7, 4), True]


def test_options_of_a_group_stand_in_its_place_when_help_lists_them() -> None:
    (registered,) = command([]).registered_commands
    assert registered.callback is not None
    names = list(inspect.signature(registered.callback).parameters)
    assert names == ["name", "before", "width", "height", "after", "bootstrap_server", "command_config", "settings"]
