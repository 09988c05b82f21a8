"""`penstock produce`: records from the command line, a file or standard input."""

from __future__ import annotations

import contextlib
import enum
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import SETTLE_SECONDS, ClusterClient, find_partitions
from penstock.cli.access.payloads import Encode
from penstock.cli.commands.records.schema_options import WriteSchemaOptions
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, UsageError, explain
from penstock.cli.options import on_cluster
from penstock.cli.plans.pace import Pace
from penstock.cli.progress import progress
from penstock.cli.records.input import InputRecord, TextFormat, parse_json_record, split_stream
from penstock.cli.text import format_size, parse_pair, plural, unescape
from penstock.cli.times import TIME_FORMS, parse_time_ms

if TYPE_CHECKING:
    from confluent_kafka import Producer

app = typer.Typer(rich_markup_mode=None)

# How long records that are under way may still be delivered after Ctrl-C.
_INTERRUPTED_FLUSH_SECONDS = 10.0
# A record that no broker takes for this long is reported; librdkafka's own five minutes look like a hang.
_DELIVERY_TIMEOUT_MS = 30_000


class Compression(enum.StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(enum.StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class InputFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(slots=True)
class Delivery:
    """What became of the records, counted by the producer's callback."""

    sent: int = 0
    delivered: int = 0
    delivered_bytes: int = 0
    failed: int = 0
    first_failure: CliError | None = None

    def record(self, error: Any, message: Any) -> None:
        if error is None:
            self.delivered += 1
            self.delivered_bytes += len(message) + len(message.key() or b"")
            return
        self.failed += 1
        if self.first_failure is None:
            self.first_failure = explain(error.name(), error.str(), f"topic {message.topic()}")


def producer_settings(compression: str, acks: str, idempotent: bool) -> dict[str, Any]:
    if idempotent and acks != "all":
        raise UsageError("an idempotent producer needs --acks all", "Drop --acks or --idempotent.")
    return {
        "compression.type": compression,
        "acks": acks,
        "enable.idempotence": idempotent,
        "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
    }


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where the records come from."""

    value: Annotated[str | None, typer.Option("--value", "-v", help="Send this one value.")] = None
    tombstone: Annotated[bool, typer.Option("--tombstone", help="Send one null value for --key.")] = False
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read records from a file.")] = None
    input_format: Annotated[InputFormat, typer.Option("--format", help="What a line is.")] = InputFormat.TEXT

    @property
    def size(self) -> int | None:
        """Bytes to read, where that is known."""
        return self.file.stat().st_size if self.file is not None and self.file.is_file() else None


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How text becomes records."""

    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help=r"Splits a line into key and value; \t is a tab.")
    ] = None
    delimiter: Annotated[str, typer.Option("--delimiter", help="Ends a record.")] = r"\n"
    null_marker: Annotated[str | None, typer.Option(help="A key or value that reads so is null.")] = None
    header: Annotated[list[str] | None, typer.Option("--header", "-H", metavar="K=V", help="A header.")] = None


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """Where the records go, and when they happened."""

    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Default: by the key, as Java clients do.")
    ] = None
    repartition: Annotated[bool, typer.Option("--repartition", help="Ignore the partitions of JSON records.")] = False
    timestamp: Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME_FORMS}.")] = None


@dataclass(frozen=True, slots=True)
class SendingOptions:
    """How records are sent, how fast, and what is shown of it."""

    compression: Annotated[Compression, typer.Option("--compression", "-z")] = Compression.NONE
    acks: Annotated[Acks, typer.Option("--acks", "-a", help="Who must have a record.")] = Acks.ALL
    idempotent: Annotated[bool, typer.Option("--idempotent", help="No duplicates when a request is retried.")] = False
    rate: Annotated[float | None, typer.Option(min=0.001, help="Records a second at most.")] = None
    show_progress: Annotated[bool, typer.Option("--progress", help="Show a progress bar.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False


@app.command()
@on_cluster
def produce(
    cluster: ClusterClient,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)],
    source: SourceOptions,
    text: TextOptions,
    place: PlaceOptions,
    schemas: WriteSchemaOptions,
    sending: SendingOptions,
) -> None:
    """Write records to a topic, from standard input unless told otherwise.

    With --format json each line is an object with key, value, headers, partition and timestamp, as `consume --json`
    prints it; key_base64 and value_base64 hold bytes that are not text, null is null. With --schema, values are JSON
    and written by the schema.
    """
    now_ms = time.time_ns() // 1_000_000
    timestamp = parse_time_ms(place.timestamp, now_ms) if place.timestamp else None
    fixed = InputRecord(None, None, (), place.partition, timestamp)
    text_format = choose_text_format(text.key, text.key_separator, text.null_marker, text.header)
    settings = producer_settings(sending.compression.value, sending.acks.value, sending.idempotent)
    check_sources(source.value, source.tombstone, source.file, source.input_format, text_format)
    single = _single_record(source.value, source.tombstone, text_format)
    encode = schemas.encoder(topic)
    if single is not None and encode is not None:
        single = encode(single)
    delivery = Delivery()
    with _open_input(source.file) if single is None else contextlib.nullcontext(BytesIO()) as stream:
        producer = cluster.producer(settings)
        find_partitions(producer, topic, settle_seconds=SETTLE_SECONDS)
        started = time.monotonic()
        # A bar would be drawn over what a person types.
        shows_progress = sending.show_progress and not (source.file is None and sys.stdin.isatty())
        with progress(f"Producing to {topic}", source.size, enabled=shows_progress, in_bytes=True) as advance:
            lines = _counted(split_stream(stream, unescape(text.delimiter)), advance)
            records: Iterator[InputRecord]
            reading = LineReading(source.input_format, text_format, now_ms, schemas.names, encode)
            records = iter((single,)) if single is not None else reading.records(lines)
            if place.repartition:
                records = (record._replace(partition=None) for record in records)
            try:
                _send_all(producer, topic, records, fixed, Pace(sending.rate, started), delivery)
            finally:
                if not sending.quiet:
                    _summarise(delivery, time.monotonic() - started)
    if delivery.first_failure is not None:
        raise delivery.first_failure


def choose_text_format(
    key: str | None, key_separator: str | None, null_marker: str | None, headers: list[str] | None
) -> TextFormat:
    pairs = [parse_pair(text, "header") for text in headers or ()]
    return TextFormat(
        None if key is None else _to_bytes(key),
        None if key_separator is None else unescape(key_separator),
        None if null_marker is None else _to_bytes(null_marker),
        tuple((name, _to_bytes(value)) for name, value in pairs),
    )


def _to_bytes(argument: str) -> bytes:
    """The bytes the shell gave us, even where they are not text."""
    return argument.encode("utf-8", "surrogateescape")


def check_sources(
    value: str | None, tombstone: bool, file: Path | None, input_format: str, text_format: TextFormat
) -> None:
    if sum((value is not None, tombstone, file is not None)) > 1:
        raise UsageError("--value, --tombstone and --file exclude each other")
    if tombstone and text_format.key is None:
        raise UsageError("a tombstone needs --key", "It deletes what is stored under that key in a compacted topic.")
    if text_format.key is not None and text_format.key_separator is not None:
        raise UsageError("--key and --key-separator exclude each other")
    if input_format == "json" and (text_format.key is not None or text_format.key_separator is not None):
        raise UsageError("JSON records bring their own keys", "Drop --key and --key-separator.")


def _single_record(value: str | None, tombstone: bool, text_format: TextFormat) -> InputRecord | None:
    if tombstone:
        return InputRecord(text_format.key, None, text_format.headers)
    return None if value is None else text_format.parse(_to_bytes(value))


def _open_input(file: Path | None) -> contextlib.AbstractContextManager[BinaryIO]:
    """The file, or standard input, which stays open."""
    if file is not None and str(file) != "-":
        try:
            return file.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if sys.stdin.isatty():
        output.note("One record a line; Ctrl-D ends.")
    return contextlib.nullcontext(sys.stdin.buffer)


def _counted(lines: Iterator[bytes], advance: Any) -> Iterator[bytes]:
    for line in lines:
        advance(len(line) + 1)
        yield line


@dataclass(frozen=True, slots=True)
class LineReading:
    """How lines become records."""

    input_format: str
    text_format: TextFormat
    now_ms: int
    by_schema: frozenset[str]
    encode: Encode | None

    def records(self, lines: Iterator[bytes]) -> Iterator[InputRecord]:
        """A line that does not parse, or that does not fit its schema, is named by its number."""
        for number, line in enumerate(lines, 1):
            if self.input_format == "json" and not line.strip():
                continue
            try:
                yield self._record(line)
            except UsageError as error:
                raise CliError(f"line {number}: {error.message}", error.hint) from None

    def _record(self, line: bytes) -> InputRecord:
        if self.input_format == "json":
            record = parse_json_record(line, self.now_ms, self.by_schema)
        else:
            record = self.text_format.parse(line)
        return record if self.encode is None else self.encode(record)


def _send_all(
    producer: Producer, topic: str, records: Iterator[InputRecord], fixed: InputRecord, pace: Pace, delivery: Delivery
) -> None:
    """Sends everything, and delivers what was sent even where the input ends in an error or a Ctrl-C."""
    patience: float = -1
    try:
        for record in records:
            delay = pace.delay(delivery.sent, time.monotonic())
            if delay:
                producer.poll(0)
                time.sleep(delay)
            send(producer, topic, record, fixed, delivery)
            if delivery.failed:
                break  # the topic or the broker is the reason, and the next records would meet it too
    except KeyboardInterrupt:
        patience = _INTERRUPTED_FLUSH_SECONDS
        raise
    finally:
        producer.flush(patience)


def send(producer: Producer, topic: str, record: InputRecord, fixed: InputRecord, delivery: Delivery) -> None:
    arguments: dict[str, Any] = {}
    partition = record.partition if fixed.partition is None else fixed.partition
    timestamp = record.timestamp if fixed.timestamp is None else fixed.timestamp
    if partition is not None:
        arguments["partition"] = partition
    if timestamp is not None:
        arguments["timestamp"] = timestamp
    if record.headers:
        arguments["headers"] = list(record.headers)
    while True:
        try:
            producer.produce(topic, record.value, record.key, on_delivery=delivery.record, **arguments)
            break
        except BufferError:  # the queue is full: let some records go first
            producer.poll(0.1)
    delivery.sent += 1
    producer.poll(0)


def _summarise(delivery: Delivery, seconds: float) -> None:
    rate = delivery.delivered / seconds if seconds > 0 else 0.0
    text = (
        f"{plural(delivery.delivered, 'record')} ({format_size(delivery.delivered_bytes)}) "
        f"in {seconds:.2f} s, {rate:,.0f} a second"
    )
    output.note(text + (f"; {delivery.failed:,} failed" if delivery.failed else ""))
