from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.cli.broker_options import (
    LOG_FORMATS,
    LOG_LEVELS,
    StartOptions,
    StartOptionsError,
    listener,
    parse_start_arguments,
    start_properties,
)


def test_plain_arguments_are_understood_when_values_follow_or_are_joined() -> None:
    arguments = [
        "broker",
        "start",
        "--data",
        "d1,d2",
        "--listen=h:1",
        "--set",
        "a=b",
        "--set=c=d",
        "--log-format",
        "json",
    ]
    assert parse_start_arguments(arguments) == StartOptions(
        data="d1,d2", listen="h:1", set=("a=b", "c=d"), log_format="json"
    )


def test_no_option_is_needed_when_parsed() -> None:
    assert parse_start_arguments(["broker", "start"]) == StartOptions()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["broker"],
        ["topics", "list"],
        ["broker", "start", "--help"],
        ["broker", "start", "--data"],
        ["broker", "start", "--dat", "x"],
        ["broker", "start", "stray"],
        ["broker", "start", "--log-level", "loud"],
        ["broker", "start", "--log-format=xml"],
        ["--version", "broker", "start"],
    ],
)
def test_full_parser_decides_when_arguments_are_not_plain(arguments: list[str]) -> None:
    assert parse_start_arguments(arguments) is None


def test_quick_parser_knows_the_same_options_when_compared_with_the_full_one() -> None:
    from typer.main import get_command

    from penstock.cli.commands.broker import LogFormat, LogLevel, app

    start = get_command(app).commands["start"]  # type: ignore[attr-defined]
    full = {option for parameter in start.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert full == {f"--{name.replace('_', '-')}" for name in StartOptions._fields}
    assert (tuple(LogFormat), tuple(LogLevel)) == (LOG_FORMATS, LOG_LEVELS)


def test_set_beats_option_and_option_beats_file_when_merged() -> None:
    file = {"log.dirs": "file", "listeners": "PLAINTEXT://file:1", "num.partitions": "1", "node.id": "7"}
    options = StartOptions(data="option", listen="h:2", set=("num.partitions=3", "log.dirs = set"))
    assert start_properties(options, file) == {
        "log.dirs": "set",
        "listeners": "PLAINTEXT://h:2",
        "num.partitions": "3",
        "node.id": "7",
    }


def test_old_address_is_not_advertised_when_listener_is_replaced() -> None:
    file = {"log.dir": "x", "listeners": "PLAINTEXT://a:1", "advertised.listeners": "PLAINTEXT://public:1"}
    assert "advertised.listeners" not in start_properties(StartOptions(listen="b:2"), file)
    assert start_properties(StartOptions(), file)["advertised.listeners"] == "PLAINTEXT://public:1"


def test_old_directory_key_is_dropped_when_data_is_given() -> None:
    assert start_properties(StartOptions(data="new"), {"log.dir": "old"}) == {"log.dirs": "new"}


def test_own_settings_are_passed_on_when_given() -> None:
    options = StartOptions(data="d", metrics="127.0.0.1:9", log_format="json", log_level="debug")
    assert start_properties(options, {}) == {
        "log.dirs": "d",
        "penstock.metrics.listen": "127.0.0.1:9",
        "penstock.log.format": "json",
        "penstock.log.level": "debug",
    }


@pytest.mark.parametrize(
    "options", [StartOptions(), StartOptions(data="d", set=("x",)), StartOptions(data="d", set=("=x",))]
)
def test_start_is_refused_when_options_make_no_broker(options: StartOptions) -> None:
    with pytest.raises(StartOptionsError):
        start_properties(options, {})


def test_listener_is_plaintext_when_it_names_no_protocol() -> None:
    assert listener("127.0.0.1:9092") == "PLAINTEXT://127.0.0.1:9092"
    assert listener("a:1,SSL://b:2") == "PLAINTEXT://a:1,SSL://b:2"


def test_nothing_heavy_is_imported_when_broker_start_is_recognised() -> None:
    """A broker must not pay for option parser, tables and client library before it can answer."""
    program = (
        "import sys; from penstock.cli.main import main; from penstock.cli.broker_options import parse_start_arguments;"
        "import penstock.cli.broker_start; parse_start_arguments(['broker', 'start']);"
        "print([name for name in ('typer', 'click', 'rich', 'confluent_kafka') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
