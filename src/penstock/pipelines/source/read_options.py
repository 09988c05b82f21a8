"""The source's options as values: what to read, from where to where, how fast, and what to do about losses. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.client.security import why_not_ours
from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.client_settings import to_librdkafka
from penstock.pipelines.options import OPTIONS, OptionError, OptionScope, ParsedOptions, parse_options, refuse_value
from penstock.pipelines.source.limits import TriggerLimits
from penstock.pipelines.source.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    Everywhere,
    OfGroup,
    PerPartition,
    Position,
    parse_assignment,
    parse_per_partition,
)

_SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
_ISOLATION_LEVELS = {"read_uncommitted": False, "read_committed": True}
# Larger than the Java client's 1 MiB: one reader per partition and task, and each round trip costs the same.
DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
DEFAULT_FETCH_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """Exactly one of the three is given."""

    topics: frozenset[str] = frozenset()
    pattern: str = ""
    partitions: frozenset[TopicPartition] = frozenset()

    def __str__(self) -> str:
        if self.pattern:
            return f"subscribePattern={self.pattern}"
        return ",".join(sorted(self.topics) or (str(partition) for partition in sorted(self.partitions)))


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The options that a task needs; they travel to the executors."""

    settings: Mapping[str, str]  # librdkafka's names
    is_direct: bool = True
    is_read_committed: bool = False
    include_headers: bool = False
    include_keys: bool = True  # without: null, and quicker
    include_values: bool = True
    # Rows have their topic and partition, and null else: whole batches are not even opened.
    is_counted: bool = False
    # Headers come, too, with rows of which one has a header of such a name.
    header_names: frozenset[str] = frozenset()
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    max_bytes: int = DEFAULT_FETCH_BYTES
    max_wait_ms: int = DEFAULT_FETCH_WAIT_MS
    check_crcs: bool = True


@dataclass(frozen=True, slots=True)
class LookupOptions:
    retries: int = 3
    retry_interval_ms: int = 10
    cache_ttl_ms: int = -1


@dataclass(frozen=True, slots=True)
class SourceOptions:
    subscription: TopicSubscription
    starting: Position
    ending: Position
    fetch: FetchOptions
    missing_timestamp_is_latest: bool = False
    limits: TriggerLimits = field(default_factory=TriggerLimits)
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    min_records_per_task: int | None = None
    group_id: str = ""  # progress is committed under it; empty: not at all
    lookup: LookupOptions = field(default_factory=LookupOptions)

    @property
    def start_moves(self) -> bool:
        """Whether the starting position is another one when it is looked up again later."""
        match self.starting:
            case Everywhere(position):
                return position == LATEST
            case PerPartition(offsets):
                return LATEST in offsets.values()
            case AtTimestamp():
                return self.missing_timestamp_is_latest
            case OfGroup():
                return False


def parse_source_options(given: Mapping[str, str], place: OptionScope) -> SourceOptions:
    """OptionError names the option that is wrong and what it accepts."""
    options = parse_options(given, place)
    subscription = _parse_subscription(options)
    group_id = _choose_group_id(options, subscription)
    starting = _parse_starting(options)
    ending = _parse_ending(options) if place is OptionScope.BATCH_READ else Everywhere(LATEST)
    _check_order(starting, ending)
    limits = TriggerLimits()
    if place is OptionScope.STREAM_READ:
        limits = TriggerLimits(
            options["maxOffsetsPerTrigger"], options["minOffsetsPerTrigger"], options["maxTriggerDelay"]
        )
        if limits.max_offsets and limits.min_offsets and limits.min_offsets > limits.max_offsets:
            raise OptionError(
                f"option minOffsetsPerTrigger is {limits.min_offsets}, more than"
                f" maxOffsetsPerTrigger={limits.max_offsets};"
                " it accepts at most that"
            )
    return SourceOptions(
        subscription=subscription,
        starting=starting,
        ending=ending,
        fetch=_parse_fetch(options),
        missing_timestamp_is_latest=options["startingOffsetsByTimestampStrategy"] == "latest",
        limits=limits,
        min_partitions=options["minPartitions"],
        max_records_per_partition=options["maxRecordsPerPartition"],
        min_records_per_task=options["minRecordsPerTask"],
        group_id=group_id,
        lookup=LookupOptions(
            options["fetchOffset.numRetries"],
            options["fetchOffset.retryIntervalMs"],
            options["partition.metadata.cache.ttl.ms"],
        ),
    )


def _parse_subscription(options: ParsedOptions) -> TopicSubscription:
    given = [name for name in _SUBSCRIPTIONS if options.given(name)]
    if len(given) != 1:
        what_is_given = " and ".join(given) + " are given together" if given else "none is given"
        raise OptionError(f"exactly one of the options {', '.join(_SUBSCRIPTIONS)} must be given; {what_is_given}")
    name, text = given[0], options[given[0]]
    if name == "assign":
        return TopicSubscription(partitions=parse_assignment(name, text))
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise refuse_value(name, text, f"a regular expression; this one is not: {error}") from None
        return TopicSubscription(pattern=text)
    topics = frozenset(filter(None, (topic.strip() for topic in text.split(","))))
    if not topics:
        raise refuse_value(name, text, "topic names separated by commas")
    return TopicSubscription(topics=topics)


def _parse_starting(options: ParsedOptions) -> Position:
    default = "latest" if options.place is OptionScope.STREAM_READ else "earliest"
    timestamp = _parse_timestamps(options, "startingTimestamp", "startingOffsetsByTimestamp")
    if timestamp is not None:
        return timestamp
    text = options["startingOffsets"] or ("group" if options.given("startingGroup") else default)
    if options.given("startingGroup") and text.lower() != "group":
        raise OptionError(f"option startingGroup cannot be given together with startingOffsets={text}; use one of them")
    if text.lower() == "group":
        group_id = options["startingGroup"] or options.kafka.get("group.id")
        if not group_id:
            raise OptionError(
                "option startingOffsets is 'group'; the group must be given as startingGroup or kafka.group.id"
            )
        return OfGroup(group_id)
    position = _parse_offsets("startingOffsets", text)
    if options.place is OptionScope.BATCH_READ:
        _refuse_position("startingOffsets", text, position, LATEST, "latest (-1)")
    return position


def _parse_ending(options: ParsedOptions) -> Position:
    timestamp = _parse_timestamps(options, "endingTimestamp", "endingOffsetsByTimestamp")
    if timestamp is not None:
        return timestamp
    text = options["endingOffsets"]
    position = _parse_offsets("endingOffsets", text)
    _refuse_position("endingOffsets", text, position, EARLIEST, "earliest (-2)")
    return position


def _parse_timestamps(options: ParsedOptions, everywhere: str, per_partition: str) -> AtTimestamp | None:
    if options.given(everywhere):
        return AtTimestamp(options[everywhere])
    if options.given(per_partition):
        accepts = OPTIONS[per_partition.lower()].kind.accepts
        return AtTimestamp(0, parse_per_partition(per_partition, options[per_partition], accepts))
    return None


def _parse_offsets(name: str, text: str) -> Everywhere | PerPartition:
    named = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if named is not None:
        return Everywhere(named)
    accepts = OPTIONS[name.lower()].kind.accepts
    offsets = parse_per_partition(name, text, accepts)
    if any(offset < EARLIEST for offset in offsets.values()):
        raise refuse_value(name, text, accepts)
    return PerPartition(offsets)


def _refuse_position(name: str, text: str, position: Everywhere | PerPartition, refused: int, word: str) -> None:
    positions = {position.position} if isinstance(position, Everywhere) else set(position.offsets.values())
    if refused in positions:
        raise OptionError(f"option {name} is {text!r}; a batch does not accept {word} there")


def _check_order(starting: Position, ending: Position) -> None:
    """Refuses a range that ends before it starts, where both ends are given per partition, before any request."""
    if isinstance(starting, PerPartition) and isinstance(ending, PerPartition):
        _check_pairs("startingOffsets", starting.offsets, "endingOffsets", ending.offsets)
    elif isinstance(starting, AtTimestamp) and isinstance(ending, AtTimestamp):
        if starting.per_partition is not None and ending.per_partition is not None:
            names = ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
            _check_pairs(names[0], starting.per_partition, names[1], ending.per_partition)
        elif starting.per_partition is None and ending.per_partition is None and starting.timestamp > ending.timestamp:
            raise OptionError(
                f"option startingTimestamp is {starting.timestamp}, later than endingTimestamp={ending.timestamp}"
            )


def _check_pairs(
    first: str, starts: Mapping[TopicPartition, int], second: str, ends: Mapping[TopicPartition, int]
) -> None:
    if starts.keys() != ends.keys():
        raise OptionError(f"options {first} and {second} must name the same partitions")
    for partition, start in starts.items():
        if 0 <= ends[partition] < start:
            raise OptionError(f"option {first} is {start} for {partition}, beyond {second}={ends[partition]}")


def _parse_fetch(options: ParsedOptions) -> FetchOptions:
    kafka = options.kafka
    settings = to_librdkafka({name: value for name, value in kafka.items() if name != "group.id"})
    isolation = kafka.get("isolation.level", "read_uncommitted").lower()
    if isolation not in _ISOLATION_LEVELS:
        raise refuse_value("kafka.isolation.level", isolation, "one of " + ", ".join(_ISOLATION_LEVELS))
    return FetchOptions(
        settings=settings,
        is_direct=_choose_fetcher(options["fetcher"], settings),
        is_read_committed=_ISOLATION_LEVELS[isolation],
        include_headers=options["includeHeaders"],
        fail_on_data_loss=options["failOnDataLoss"],
        poll_timeout_ms=options["kafkaConsumer.pollTimeoutMs"],
        max_bytes=_parse_size(kafka, "max.partition.fetch.bytes", DEFAULT_FETCH_BYTES),
        max_wait_ms=_parse_size(kafka, "fetch.max.wait.ms", DEFAULT_FETCH_WAIT_MS),
        check_crcs=kafka.get("check.crcs", "true").lower() != "false",
    )


def _choose_fetcher(fetcher: Literal["auto", "direct", "librdkafka"], settings: Mapping[str, str]) -> bool:
    if fetcher == "librdkafka":
        return False
    reason = why_not_ours(settings)
    if fetcher == "direct" and reason:
        raise OptionError(f"option fetcher is 'direct', which cannot connect: {reason}; use auto or librdkafka")
    return not reason


def _parse_size(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name, str(default))
    if not text.isdigit() or not 0 < int(text) < 2**31:
        raise refuse_value(f"kafka.{name}", text, "a whole number from 1 to 2147483647")
    return int(text)


def _choose_group_id(options: ParsedOptions, subscription: TopicSubscription) -> str:
    """Derived ids are the same after a restart, and differ between queries that read different topics."""
    if "group.id" in options.kafka:
        return options.kafka["group.id"]
    if not options.given("groupIdPrefix"):
        return ""
    digest = hashlib.sha256(str(subscription).encode()).hexdigest()[:8]
    return f"{options['groupIdPrefix']}-{digest}"
