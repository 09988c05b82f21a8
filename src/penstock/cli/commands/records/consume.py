"""`penstock consume`: records of topics to standard output."""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, list_partitions
from penstock.cli.access.offsets import find_offsets, find_range
from penstock.cli.commands.records.schema_options import ReadSchemaOptions, Transform
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, UsageError, explain
from penstock.cli.options import on_cluster
from penstock.cli.plans.consume import GroupEnds, Remaining, Start, StartKind, check_options, parse_start, plan_start
from penstock.cli.records.output import (
    OutputRecord,
    PrintOptions,
    RecordWriter,
    build_format,
    compile_format,
    show_json,
    write_json,
)
from penstock.cli.text import parse_partitions, plural
from penstock.cli.times import TIME_FORMS
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

app = typer.Typer(rich_markup_mode=None)

# Often enough for Ctrl-C to feel immediate, seldom enough to cost nothing.
_POLL_SECONDS = 0.2
_BATCH_RECORDS = 500


class Isolation(enum.StrEnum):
    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


@dataclass(slots=True)
class Limits:
    """When the command stops by itself."""

    max_messages: int | None
    timeout_seconds: float | None
    exit_at_end: bool


Topics = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC",
        autocompletion=complete_topic,
        help="With --group, ^... is a regular expression.",
        show_default=False,
    ),
]
StartFrom = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="PLACE",
        help=f"beginning, end (default), an offset, -N for the last N, or a time: {TIME_FORMS}.",
    ),
]
Format = Annotated[str | None, typer.Option("--format", metavar="FORMAT", help=r"E.g. '%t %p %o %k: %s\n'; see above.")]
IsolationLevel = Annotated[Isolation, typer.Option(help="Whether records of open and aborted transactions are read.")]
Timeout = Annotated[float | None, typer.Option(min=0, metavar="SECONDS", help="Stop when nothing came for so long.")]
MaxMessages = Annotated[int | None, typer.Option("--max-messages", "-n", min=0, help="Stop after so many.")]


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Where reading begins, and in which partitions."""

    start_from: StartFrom = None
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Same as --from beginning.")] = False
    offset: Annotated[str | None, typer.Option("--offset", "-o", metavar="PLACE", help="Same as --from.")] = None
    partition: Annotated[str | None, typer.Option("--partition", "-p", metavar="P,...", help="Only these.")] = None


@dataclass(frozen=True, slots=True)
class EndOptions:
    max_messages: MaxMessages = None
    timeout: Timeout = None
    follow: Annotated[bool, typer.Option("--follow/--exit", "-f/-e", help="Wait for more, or stop at the end.")] = True


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """How a record is printed."""

    record_format: Format = None
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False
    print_key: Annotated[bool, typer.Option("--print-key")] = False
    print_headers: Annotated[bool, typer.Option("--print-headers")] = False
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp")] = False
    print_offset: Annotated[bool, typer.Option("--print-offset")] = False
    print_partition: Annotated[bool, typer.Option("--print-partition")] = False
    key_separator: Annotated[str, typer.Option("--key-separator", "-K", help="Between what is printed.")] = r"\t"
    null_marker: Annotated[str, typer.Option(help="Printed for null.")] = "null"
    raw: Annotated[
        bool, typer.Option("--raw", help="To a terminal as well every byte as it is, escape sequences too.")
    ] = False

    def writer(self) -> RecordWriter:
        is_shown = sys.stdout.isatty() and not self.raw
        if self.as_json:
            return show_json if is_shown else write_json
        printed = PrintOptions(
            self.print_timestamp, self.print_partition, self.print_offset, self.print_headers, self.print_key
        )
        chosen = self.record_format if self.record_format is not None else build_format(printed, self.key_separator)
        return compile_format(chosen, self.null_marker.encode(), is_shown=is_shown)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Who reads."""

    group: Annotated[str | None, typer.Option("--group", "-g", help="Read as a member of this group.")] = None
    isolation: IsolationLevel = Isolation.UNCOMMITTED


@app.command()
@on_cluster
def consume(
    cluster: ClusterClient,
    topics: Topics,
    *,
    begin: StartOptions,
    reading: ReaderOptions,
    end: EndOptions,
    schemas: ReadSchemaOptions,
    printing: FormatOptions,
) -> None:
    """Print the records of topics, newest as they come.

    \b
    --format takes
      %t topic        %k key          %s value          %T timestamp in ms
      %p partition    %K key length   %S value length   %D timestamp as ISO 8601
      %o offset       %h headers      %% percent sign   \\n \\t \\0 \\xNN \\uNNNN
    """
    group = reading.group
    start = _choose_start(begin.start_from, begin.offset, begin.from_beginning)
    has_format = printing.record_format is not None
    check_options(len(topics), group, begin.partition, start, as_json=printing.as_json, has_format=has_format)
    writer = printing.writer()
    limits = Limits(end.max_messages, end.timeout, not end.follow)
    settings = {"isolation.level": reading.isolation.value, "enable.partition.eof": True}
    with schemas.transform() as transform:
        if group is None:
            wanted = parse_partitions(begin.partition) if begin.partition is not None else None
            reader = _assigned_reader(cluster, topics, wanted, start or Start(StartKind.END), settings)
        else:
            reader = _group_reader(cluster, topics, group, start, settings)
        _finish(_run(reader, limits, writer, transform), limits)


def _choose_start(start_from: str | None, offset: str | None, from_beginning: bool) -> Start | None:
    given = [text for text in (start_from, offset, "beginning" if from_beginning else None) if text is not None]
    if len(given) > 1:
        raise UsageError("--from, --offset and --from-beginning exclude each other")
    return parse_start(given[0], time.time_ns() // 1_000_000) if given else None


class BoundedConsumer:
    """A consumer with its places to stop."""

    def __init__(self, consumer: Consumer, ends: Remaining | GroupEnds) -> None:
        self.consumer = consumer
        self.ends = ends

    def read(self, count: int, exit_at_end: bool) -> Iterator[OutputRecord]:
        for message in self.consumer.consume(count, _POLL_SECONDS):
            record = self._accept(message, exit_at_end)
            if record is not None:
                yield record

    def _accept(self, message: Message, exit_at_end: bool) -> OutputRecord | None:
        key = TopicPartition(message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        error = message.error()
        if error is not None:
            if error.name() != "_PARTITION_EOF":
                raise explain(error.name(), error.str())
            self._pass(key, offset, at_end=True)
            return None
        if exit_at_end and isinstance(self.ends, Remaining) and not self.ends.wants(key, offset):
            return None
        self._pass(key, offset + 1, at_end=False)
        timestamp_type, timestamp = message.timestamp()
        headers: Any = message.headers() or ()
        return OutputRecord(
            key.topic, key.partition, offset, timestamp, timestamp_type, message.key(), message.value(), headers
        )

    def _pass(self, key: TopicPartition, next_offset: int, *, at_end: bool) -> None:
        if isinstance(self.ends, Remaining):
            self.ends.passed(key, next_offset)
        elif at_end:
            self.ends.at_end(key)


def _assigned_reader(
    cluster: ClusterClient, topics: list[str], wanted: list[int] | None, start: Start, settings: dict[str, Any]
) -> BoundedConsumer:
    from confluent_kafka import TopicPartition as ClientPartition

    admin = cluster.admin()
    keys = [key for topic in topics for key in _choose_partitions(topic, list_partitions(admin, topic), wanted)]
    ranges = find_range(admin, keys)
    starts = plan_start(start, ranges, _offsets_by_time(admin, start, keys))
    # The library insists on a group; this one is never joined and commits nothing.
    private_group = {"group.id": f"penstock-cli-{uuid.uuid4()}", "enable.auto.commit": False}
    consumer = cluster.consumer({**settings, **private_group, "auto.offset.reset": "earliest"})
    consumer.assign([ClientPartition(key.topic, key.partition, offset) for key, offset in starts.items()])
    return BoundedConsumer(consumer, Remaining.plan(starts, {key: span.stop for key, span in ranges.items()}))


def _choose_partitions(topic: str, existing: list[int], wanted: list[int] | None) -> list[TopicPartition]:
    missing = sorted(set(wanted or ()) - set(existing))
    if missing:
        raise CliError(f"topic {topic} has no partition {missing[0]}", f"It has {plural(len(existing), 'partition')}.")
    return [TopicPartition(topic, partition) for partition in (existing if wanted is None else wanted)]


def _offsets_by_time(admin: AdminClient, start: Start, keys: list[TopicPartition]) -> dict[TopicPartition, int]:
    if start.kind is not StartKind.TIME:
        return {}
    return {key: answer.offset for key, answer in find_offsets(admin, dict.fromkeys(keys, start.number)).items()}


def _group_reader(
    cluster: ClusterClient, topics: list[str], group: str, start: Start | None, settings: dict[str, Any]
) -> BoundedConsumer:
    reset = start.kind.value if start is not None else StartKind.END.value
    consumer = cluster.consumer({**settings, "group.id": group, "auto.offset.reset": reset})
    ends = GroupEnds()

    def note_assignment(_consumer: Consumer, partitions: list[Any]) -> None:
        ends.assign(TopicPartition(key.topic, key.partition) for key in partitions)

    consumer.subscribe(topics, on_assign=note_assignment)
    return BoundedConsumer(consumer, ends)


@dataclass(slots=True)
class ConsumeResult:
    count: int = 0
    timed_out: bool = False


def _run(reader: BoundedConsumer, limits: Limits, writer: RecordWriter, transform: Transform) -> ConsumeResult:
    """Reads until a limit is reached or somebody stops it; always leaves the group and commits."""
    outcome = ConsumeResult()
    last_seen = time.monotonic()
    out = sys.stdout.buffer
    with contextlib.closing(reader.consumer), _signals_noted() as received:
        while not received and not (limits.exit_at_end and reader.ends.is_done):
            wanted = _BATCH_RECORDS if limits.max_messages is None else limits.max_messages - outcome.count
            if wanted <= 0:
                break
            read = reader.read(min(wanted, _BATCH_RECORDS), limits.exit_at_end)
            chunks: list[bytes] = []
            try:
                for each in map(transform, read):
                    if each is not None:
                        chunks.append(writer(each))  # noqa: PERF401  # kept where the next record cannot be read
            finally:  # what came before a record that cannot be read is printed
                if chunks:
                    out.write(b"".join(chunks))
                    out.flush()
            if chunks:
                outcome.count += len(chunks)
                last_seen = time.monotonic()
            elif limits.timeout_seconds is not None and time.monotonic() - last_seen >= limits.timeout_seconds:
                outcome.timed_out = True
                break
    return outcome


@contextlib.contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are the usual end of a consumer that follows a topic, not a failure; a second one is meant."""
    received: list[int] = []

    def note(number: int, _frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _finish(outcome: ConsumeResult, limits: Limits) -> None:
    if sys.stderr.isatty():
        output.note(plural(outcome.count, "record"))
    if outcome.timed_out and limits.max_messages is not None and outcome.count < limits.max_messages:
        raise CliError(
            f"only {plural(outcome.count, 'record')} came, not {limits.max_messages:,}",
            f"Nothing arrived for {limits.timeout_seconds:g} s.",
        )
