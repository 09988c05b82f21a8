from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker
from tests.clients.support import PATIENCE_S

# The partitions that the Java client's partitioner (murmur2) gives these keys in a topic of three.
JAVA_PARTITIONS = {"a": 1, "b": 2, "c": 1}


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


def read_all(cli: Cli, topic: str, *options: str) -> bytes:
    return cli.run("consume", topic, "--from", "beginning", "--exit", *options).out


def test_lines_come_back_when_they_were_produced(cli: Cli) -> None:
    topic = cli.new_topic()
    produced = cli.run("produce", topic, stdin=b"one\n\nthree\xff\x00\nfour")
    assert "4 records" in produced.err
    assert produced.out == b""
    assert read_all(cli, topic) == b"one\n\nthree\xff\x00\nfour\n"


def test_keys_headers_and_nulls_come_back_when_they_were_produced(cli: Cli) -> None:
    topic = cli.new_topic("-p", "3")
    stdin = b"a:1\nb:2\nc:NULL\n"
    cli.run("produce", topic, "-K", ":", "--null-marker", "NULL", "-H", "h=x", "-H", "h=y", stdin=stdin)
    lines = sorted(read_all(cli, topic, "--format", r"%k|%s|%h|%p|%S\n").decode().splitlines())
    assert lines == [
        f"a|1|h=x,h=y|{JAVA_PARTITIONS['a']}|1",
        f"b|2|h=x,h=y|{JAVA_PARTITIONS['b']}|1",
        f"c|null|h=x,h=y|{JAVA_PARTITIONS['c']}|-1",
    ]


def test_single_records_are_sent_when_given_as_options(cli: Cli) -> None:
    topic = cli.new_topic("-p", "2")
    cli.run("produce", topic, "-v", "hello", "-k", "k", "-p", "1", "--timestamp", "2024-01-01")
    cli.run("produce", topic, "--tombstone", "-k", "k", "-p", "1")
    first, second = cli.run("consume", topic, "--from", "beginning", "--exit", "--json").json_lines
    assert (first["value"], first["key"], first["partition"], first["timestamp"]) == (
        "hello",
        "k",
        1,
        1_704_067_200_000,
    )
    assert (second["value"], second["key"]) == (None, "k")


def test_records_are_the_same_when_piped_from_topic_to_topic(cli: Cli) -> None:
    source, target = cli.new_topic("-p", "2"), cli.new_topic("-p", "2")
    cli.run("produce", source, "-K", ":", "-H", "h=1", stdin=b"a:\xff\xfe\nb:text\nc:\n")
    exported = read_all(cli, source, "--json")
    cli.run("produce", target, "--format", "json", stdin=exported)
    fields = ("--format", r"%p %o %k %s %h %T\n")
    assert sorted(read_all(cli, source, *fields).splitlines()) == sorted(read_all(cli, target, *fields).splitlines())


@pytest.mark.parametrize("options", [["-z", "gzip"], ["-z", "snappy"], ["-z", "lz4"], ["-z", "zstd", "--idempotent"]])
def test_records_come_back_when_compressed(cli: Cli, options: list[str]) -> None:
    topic = cli.new_topic()
    lines = b"".join(b"line %d of many that are alike\n" % number for number in range(1000))
    cli.run("produce", topic, *options, stdin=lines)
    assert read_all(cli, topic) == lines


def test_file_is_sent_at_the_rate_when_one_is_given(cli: Cli, tmp_path: Path) -> None:
    topic = cli.new_topic()
    (tmp_path / "records").write_bytes(b"a;b;c;d;e;f")
    started = time.monotonic()
    cli.run("produce", topic, "--file", str(tmp_path / "records"), "--delimiter", ";", "--rate", "20")
    assert time.monotonic() - started >= 0.25
    assert read_all(cli, topic) == b"a\nb\nc\nd\ne\nf\n"


def test_line_is_named_and_earlier_ones_are_sent_when_input_is_wrong(cli: Cli) -> None:
    topic = cli.new_topic()
    result = cli.try_run("produce", topic, "--format", "json", stdin=b'{"value": "1"}\nnonsense\n')
    assert result.code == 1
    assert "line 2" in result.err
    assert read_all(cli, topic) == b"1\n"


def test_failure_is_told_when_broker_refuses_a_record(cli: Cli) -> None:
    topic = cli.new_topic("--config", "max.message.bytes=1000")
    result = cli.try_run("produce", topic, "-v", "x" * 5000)
    assert result.code == 1
    assert "too large" in result.err.lower()
    assert cli.try_run("produce", topic, "-v", "x", "-p", "7").code == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "7"], "789"),
        (["--offset", "8"], "89"),
        (["--from", "-3"], "789"),
        (["--from", "1700000000005"], "56789"),
        (["--from", "2023-11-14T22:13:20.009Z"], "9"),
        (["--from", "end"], ""),
        (["--from", "beginning", "-n", "2"], "01"),
        (["--from-beginning"], "0123456789"),
    ],
)
def test_reading_starts_where_asked(cli: Cli, options: list[str], expected: str) -> None:
    topic = cli.new_topic()
    records = b"".join(b'{"value": "%d", "timestamp": %d}\n' % (n, 1_700_000_000_000 + n) for n in range(10))
    cli.run("produce", topic, "--format", "json", stdin=records)
    assert cli.run("consume", topic, "--exit", "--format", "%s", *options).text == expected


def test_only_chosen_partitions_are_read_when_named(cli: Cli) -> None:
    topic = cli.new_topic("-p", "3")
    for partition in "012":
        cli.run("produce", topic, "-v", partition, "-p", partition)
    assert sorted(read_all(cli, topic, "-p", "0,2").split()) == [b"0", b"2"]
    assert cli.try_run("consume", topic, "-p", "5").code == 1


def test_timeout_ends_reading_when_nothing_comes(cli: Cli) -> None:
    topic = cli.new_topic()
    assert cli.run("consume", topic, "--timeout", "0.3").out == b""
    unmet = cli.try_run("consume", topic, "--timeout", "0.3", "-n", "1")
    assert unmet.code == 1
    assert "only 0 records" in unmet.err


def test_group_goes_on_where_it_stopped_when_it_reads_again(cli: Cli) -> None:
    topic = cli.new_topic("-p", "2")
    group = f"group-of-{topic}"
    cli.run("produce", topic, stdin=b"1\n2\n3\n")
    first = cli.run("consume", topic, "--group", group, "--from", "beginning", "--exit")
    assert sorted(first.out.split()) == [b"1", b"2", b"3"]
    cli.run("produce", topic, stdin=b"4\n")
    assert cli.run("consume", topic, "--group", group, "--from", "beginning", "--exit").out == b"4\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follower_ends_well_and_leaves_its_group_when_signalled(cli: Cli, number: int) -> None:
    topic = cli.new_topic()
    group = f"group-of-{topic}"
    cli.run("produce", topic, "-v", "first")
    with cli.running("consume", topic, "--group", group, "--from", "beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        cli.run("produce", topic, "-v", "second")
        assert process.stdout.readline() == b"second\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, b"", b"")
    (described,) = cli.run("groups", "describe", group, "--json").json
    assert (described["state"], described["total_lag"]) == ("Empty", 0)


def test_reader_ends_quietly_when_its_output_is_closed(cli: Cli) -> None:
    topic = cli.new_topic()
    cli.run("produce", topic, stdin=b"line\n" * 50_000)
    with cli.running("consume", topic, "--from", "beginning") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        process.wait(timeout=PATIENCE_S)
        assert b"Traceback" not in process.stderr.read()


def test_terminal_obeys_nothing_of_records_and_groups_unless_it_is_asked_to(cli: Cli) -> None:
    """Values and the names of groups reached the terminal with their escape sequences."""
    topic, group = cli.new_topic(), "g\x1b]0;owned\x07"
    cli.run("produce", topic, stdin=b"\x1b[2Jgone\n")
    read = ("consume", topic, "--from", "beginning", "--exit")
    assert cli.run(*read, "--group", group).out == b"\x1b[2Jgone\n"
    for said in (cli.run("groups", "list").text, cli.run("groups", "describe", group).text):
        assert "\x1b" not in said
    assert r"g\x1b]0;owned\x07" in cli.run("groups", "list").text
    assert on_a_terminal(cli, *read) == b"\\x1b[2Jgone\r\n"
    assert on_a_terminal(cli, *read, "--raw") == b"\x1b[2Jgone\r\n"


def on_a_terminal(cli: Cli, *arguments: str) -> bytes:
    ours, theirs = os.openpty()
    try:
        command = [sys.executable, "-m", "penstock", *arguments, "-b", cli.bootstrap_servers]
        subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
        return os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
