"""What `on_cluster` makes of a command's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import on_cluster
from penstock.protocol.errors import ApiError, ErrorCode


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


def name_no_topic() -> None:
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient

    AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}).describe_topics(TopicCollection([""]))


def count_too_far() -> None:
    from confluent_kafka.admin import NewTopic

    NewTopic("t", 10**30)


def count_each_too_far() -> None:
    from confluent_kafka import TopicPartition

    [TopicPartition("t", 0, offset) for offset in (1, 10**30)]


def ask_for_too_much() -> None:
    raise ApiError(ErrorCode.INVALID_REQUEST, "the request cannot be written")


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (name_no_topic, UsageError, "Empty topic name"),
        (count_too_far, UsageError, "a number is beyond"),
        (count_each_too_far, UsageError, "a number is beyond"),
        (ask_for_too_much, CliError, "cannot be written"),
    ],
)
def test_one_sentence_is_told_when_a_client_library_refuses_a_value(
    mistake: Callable[[], None], kind: type[CliError], words: str
) -> None:
    app = typer.Typer()

    @app.command()
    @on_cluster
    def fail(cluster: ClusterClient) -> None:
        mistake()

    with pytest.raises(kind, match=words):
        typer.main.get_command(app).main([], standalone_mode=False)


@pytest.mark.parametrize("kind", [ValueError, OverflowError])
def test_our_own_mistakes_stay_mistakes_when_a_command_fails(kind: type[Exception]) -> None:
    app = typer.Typer()

    @app.command()
    @on_cluster
    def fail(cluster: ClusterClient) -> None:
        raise kind("a defect")

    with pytest.raises(kind, match="a defect"):
        typer.main.get_command(app).main([], standalone_mode=False)
