"""Runs of pipelines on a cluster, by way of their topics. Needs no Spark."""

from __future__ import annotations

import contextlib
import getpass
import socket
import time
import uuid
from collections.abc import Iterator

from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, ClusterClient
from penstock.cli.errors import CliError, ExitCode
from penstock.runs.commands import VALID_FOR_MS, CommandAnswer, await_answer, send_command
from penstock.runs.overview import SeenRun
from penstock.runs.reader import CONSUMER_SETTINGS, RunsReader
from penstock.runs.records import Command, Verb
from penstock.runs.topics import RunTopics

# A heartbeat that is on its way is waited for a little longer than it takes by the book.
_DOUBT_SLACK_S = 1.0
_LONGEST_DOUBT_S = 15.0


@contextlib.contextmanager
def read_runs(cluster: ClusterClient, topic: str) -> Iterator[RunsReader]:
    """A reader at the end of the topic. Where clocks leave a doubt whether a run is lost, it has listened for a
    heartbeat first."""
    reader = RunsReader(cluster.consumer(dict(CONSUMER_SETTINGS)), topic)
    try:
        if not reader.read_to_end(REQUEST_TIMEOUT_SECONDS):
            raise CliError(f"the topic {topic} could not be read to its end in time", exit_code=ExitCode.UNREACHABLE)
        now_ms = brokers_time(reader)
        if reader.overview.has_doubts(now_ms):
            heartbeat_s = reader.overview.longest_heartbeat_ms(now_ms) / 1000
            patience_s = min(heartbeat_s + _DOUBT_SLACK_S, _LONGEST_DOUBT_S)
            reader.listen(patience_s, lambda overview: not overview.has_doubts(brokers_time(reader)))
        yield reader
    finally:
        reader.close()


def brokers_time(reader: RunsReader) -> int:
    return reader.overview.brokers_time(time.time_ns() // 1_000_000)


def ask_run(
    cluster: ClusterClient, reader: RunsReader, topics: RunTopics, run: SeenRun, verb: Verb, wait_s: float
) -> CommandAnswer:
    command = Command(
        id=uuid.uuid4().hex,
        verb=verb,
        run=run.record.run,
        type=run.record.type,
        name=run.record.name,
        by=_whoami(),
        sent_ms=time.time_ns() // 1_000_000,
        valid_for_ms=VALID_FOR_MS,
    )
    send_command(cluster.producer({}), topics.commands, command, REQUEST_TIMEOUT_SECONDS)
    return await_answer(reader, run, command, wait_s)


def _whoami() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a container without a user of that number
        return socket.gethostname()
