"""Every option of `format("penstock")`, reading and writing: one table, and the parsing that goes by it.

Names and meanings are those of Spark's own Kafka connector, so that moving between the two is one word; options that
it does not have are marked "ours" in their text. Spark hands options over with lower-cased names; messages use the
documented spelling.
"""

from __future__ import annotations

import difflib
import enum
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.config.types import ConfigError
from penstock.core.properties import read_properties
from penstock.core.time.durations import DURATION_FORMS, DurationError, duration_ms

logger = logging.getLogger(__name__)

KAFKA_PREFIX = "kafka."
REGISTRY_PREFIX = "registry."


class OptionScope(enum.Enum):
    """Where a set of options is used."""

    BATCH_READ = "a batch read"
    STREAM_READ = "a streaming read"
    BATCH_WRITE = "a batch write"
    STREAM_WRITE = "a streaming write"


READS = frozenset({OptionScope.BATCH_READ, OptionScope.STREAM_READ})
WRITES = frozenset({OptionScope.BATCH_WRITE, OptionScope.STREAM_WRITE})


class OptionError(ValueError):
    """An option has an invalid value: the message names the option and the values that it accepts."""


@dataclass(frozen=True, slots=True)
class OptionKind:
    """How an option's text is read. `parse` raises ValueError for what it does not accept."""

    accepts: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    kind: OptionKind
    places: frozenset[OptionScope]
    doc: str
    default: Any = None
    # Accepted and without effect: the option has a meaning elsewhere, and a job should run in both modes unchanged.
    ignored_in: frozenset[OptionScope] = frozenset()


# ---- kinds


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _parse_duration_ms(text: str) -> int:
    return duration_ms(text, takes_bare_number=True)


def _parse_lateness_ms(text: str) -> int:
    if text.lower() == "none":
        return ANY_LATENESS_MS
    return min(ANY_LATENESS_MS, _parse_duration_ms(text))


def _parse_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def integer(minimum: int, *, also: frozenset[int] = frozenset(), accepts: str = "") -> OptionKind:
    def parse(text: str) -> int:
        number = int(text)
        if number < minimum and number not in also:
            raise ValueError
        return number

    return OptionKind(accepts or f"a whole number of at least {minimum}", parse)


def choice(*values: str) -> OptionKind:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError
        return text.lower()

    return OptionKind("one of " + ", ".join(values), parse)


BOOLEAN = OptionKind("true or false", _parse_boolean)
DURATION = OptionKind(f"a duration such as {DURATION_FORMS}", _parse_duration_ms)
# However late a record comes with a timestamp of the past, a question about that time sees it.
ANY_LATENESS_MS = 2**63 - 1
LATENESS = OptionKind(f"{DURATION.accepts}, or none for no limit", _parse_lateness_ms)
TEXT = OptionKind("a text that is not empty", _parse_text)
OFFSETS = OptionKind('earliest, latest, group or offsets per partition such as {"topic":{"0":23,"1":-2}}', _parse_text)
ENDING_OFFSETS = OptionKind('latest or offsets per partition such as {"topic":{"0":50,"1":-1}}', _parse_text)
TIMESTAMPS = OptionKind('milliseconds per partition such as {"topic":{"0":1700000000000}}', _parse_text)
TIMESTAMP = integer(0, accepts="a time in milliseconds since 1970-01-01 UTC")


# ---- the table

_STREAM_READ = frozenset({OptionScope.STREAM_READ})
_BATCH_READ = frozenset({OptionScope.BATCH_READ})

READ_OPTIONS: tuple[Option, ...] = (
    Option("subscribe", TEXT, READS, "Topics to read, separated by commas."),
    Option("subscribePattern", TEXT, READS, "Topics to read: all whose whole name matches this regular expression."),
    Option("assign", TEXT, READS, 'Partitions to read: {"topicA":[0,1],"topicB":[2]}.'),
    Option(
        "startingOffsets",
        OFFSETS,
        READS,
        "Where a query without a checkpoint begins: default latest for streams, earliest for batches. In JSON -2 is"
        " earliest, -1"
        " latest (streams only). `group` (ours): what kafka.group.id or startingGroup has committed, earliest where"
        " it has not.",
    ),
    Option(
        "startingGroup",
        TEXT,
        READS,
        "Ours: begin at the offsets that this consumer group has committed; implies startingOffsets=group.",
    ),
    Option(
        "startingTimestamp", TIMESTAMP, READS, "Begin at the first record of this time or later, in every partition."
    ),
    Option("startingOffsetsByTimestamp", TIMESTAMPS, READS, "The same with a time per partition."),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        READS,
        "What happens to a partition that has no record of the starting time or later.",
        "error",
    ),
    Option(
        "endingOffsets", ENDING_OFFSETS, _BATCH_READ, "Where a batch ends, exclusively. In JSON -1 is latest.", "latest"
    ),
    Option("endingTimestamp", TIMESTAMP, _BATCH_READ, "End before the first record of this time or later."),
    Option("endingOffsetsByTimestamp", TIMESTAMPS, _BATCH_READ, "The same with a time per partition."),
    Option(
        "maxOffsetsPerTrigger",
        integer(1),
        _STREAM_READ,
        "At most so many offsets per micro-batch, shared among partitions in proportion to what each has waiting.",
        ignored_in=_BATCH_READ,
    ),
    Option(
        "minOffsetsPerTrigger",
        integer(1),
        _STREAM_READ,
        "A micro-batch waits for so many new offsets, at most for maxTriggerDelay.",
        ignored_in=_BATCH_READ,
    ),
    Option(
        "maxTriggerDelay",
        DURATION,
        _STREAM_READ,
        "How long minOffsetsPerTrigger may delay.",
        900_000,
        ignored_in=_BATCH_READ,
    ),
    Option("minPartitions", integer(1), READS, "At least about so many tasks: large ranges are split."),
    Option("maxRecordsPerPartition", integer(1), READS, "At most so many offsets per task: larger ranges are split."),
    Option(
        "minRecordsPerTask",
        integer(1),
        READS,
        "At least about so many offsets per task: small ranges share one. Not with minPartitions. (ours)",
    ),
    Option(
        "failOnDataLoss",
        BOOLEAN,
        READS,
        "Fail when records that should be read are gone (retention, deleted topic); false warns and goes on.",
        True,
    ),
    Option("includeHeaders", BOOLEAN, READS, "Adds the column `headers`.", False),
    Option(
        "groupIdPrefix",
        TEXT,
        READS,
        "Progress of a stream is committed under a group id that begins so; ignored when kafka.group.id is given.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        integer(1),
        READS,
        "How long a task waits for records that must be there before it fails.",
        120_000,
    ),
    Option("fetchOffset.numRetries", integer(0), READS, "How often a failed lookup of offsets is repeated.", 3),
    Option("fetchOffset.retryIntervalMs", integer(0), READS, "Pause before such a repetition.", 10),
    Option(
        "partition.metadata.cache.ttl.ms",
        integer(1, also=frozenset({-1}), accepts="a whole number of at least 1, or -1 for no caching"),
        READS,
        "How long the list of partitions is used without asking again.",
        -1,
    ),
    Option(
        "fetcher",
        choice("auto", "direct", "librdkafka"),
        READS,
        "Ours: who fetches records. `direct` is the fast one; `librdkafka` understands every setting of its own;"
        " `auto` is `direct` unless a setting needs librdkafka.",
        "auto",
    ),
)

# A topic as a table, whose columns are decoded while it is read. All of them are ours.
TABLE_OPTIONS: tuple[Option, ...] = (
    Option(
        "table",
        TEXT,
        READS,
        "Ours: the topic to read as a table, or `topic$latest` for the latest record of each key. Its columns are the"
        " fields of its latest schema, and _key, _headers, _partition, _offset and _timestamp. Instead of subscribe;"
        " kafka.isolation.level is read_committed then unless given. Where the registry is and how to log in there is"
        " given by registry.url, registry.basic.auth.user.info and so on.",
    ),
    Option(
        "badRows",
        choice("fail", "skip", "null"),
        READS,
        "Ours, with table: what becomes of a record that does not decode: the query fails and names its offset, the"
        " record is left out, or its columns are null.",
        "fail",
    ),
    Option("subject", TEXT, READS, "Ours, with table: the subject of its values, if not the topic's name and -value."),
    Option(
        "tableDefinition",
        TEXT,
        READS,
        "Ours, with table: what is known of the table already, as penstock.pipelines.sql writes it.",
    ),
)

# Options of the sink. `topic` is the connector's; the descriptions of our own options say that they are ours.
WRITE_OPTIONS: tuple[Option, ...] = (
    Option(
        "topic", TEXT, WRITES, "Where every row goes, whatever the column topic says; without it that column is needed."
    ),
    Option(
        "guarantee",
        choice("exactly-once", "at-least-once"),
        WRITES,
        "Ours: what a repeated batch or task leaves in the topic. Default exactly-once for streams, at-least-once"
        " for batches.",
    ),
    Option(
        "queryId",
        TEXT,
        WRITES,
        "Ours, for exactly-once: names the query over restarts. Streams know theirs; a batch write must be told.",
    ),
    Option("batchId", integer(0), WRITES, "Ours, for exactly-once: as queryId, which batch of the query this is."),
    Option(
        "sinkName",
        TEXT,
        WRITES,
        "Ours, for exactly-once: tells writes of the same batch apart. A batch write must be told; default for"
        " streams: sink.",
    ),
    Option(
        "includeTimestamp",
        BOOLEAN,
        WRITES,
        "Ours: a column `timestamp` becomes the record's time. Rows are handed over one by one then.",
        False,
    ),
    Option(
        "checkpointLocation", TEXT, frozenset({OptionScope.STREAM_WRITE}), "Spark's own; the sink does not look at it."
    ),
)

CLIENT_FILE = Option(
    "kafkaConfigFile",
    TEXT,
    READS | WRITES,
    "Ours: a file with client settings, as Kafka's tools take it; read by the driver. Options with kafka. beat it.",
)

_ALL = (CLIENT_FILE, *READ_OPTIONS, *TABLE_OPTIONS, *WRITE_OPTIONS)
OPTIONS: dict[str, Option] = {option.name.lower(): option for option in _ALL}

# Client settings that must not be given, and what to use instead.
_ALWAYS_REFUSED = {
    "interceptor.classes": "interceptors are Java classes and may change records",
}
_REFUSED_SETTINGS: dict[frozenset[OptionScope], dict[str, str]] = {
    READS: {
        **_ALWAYS_REFUSED,
        "auto.offset.reset": "use the option startingOffsets; Spark keeps track of offsets itself",
        "enable.auto.commit": "progress is committed after each batch when kafka.group.id is given",
        "key.deserializer": "keys arrive as binary; convert them with column expressions",
        "value.deserializer": "values arrive as binary; convert them with column expressions",
    },
    WRITES: {
        **_ALWAYS_REFUSED,
        "key.serializer": "keys are binary or string columns; convert them with column expressions",
        "value.serializer": "values are binary or string columns; convert them with column expressions",
        "transactional.id": "it is made of queryId, sinkName and the task; use the option guarantee",
    },
}


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """Values by documented name, defaults filled in; client settings without their prefix."""

    place: OptionScope
    values: Mapping[str, Any] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)  # Confluent's names, as RegistrySettings takes them

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def given(self, name: str) -> bool:
        return self.values.get(name) is not None

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka["bootstrap.servers"]


def parse_options(given: Mapping[str, str], place: OptionScope) -> ParsedOptions:
    """OptionError names the first option that is wrong."""
    lowered = {name.lower(): str(value) for name, value in given.items()}
    kafka = {name.removeprefix(KAFKA_PREFIX): value for name, value in lowered.items() if _is_client_setting(name)}
    client_file = lowered.get(CLIENT_FILE.name.lower())
    if client_file is not None:
        kafka = {**_read_client_file(client_file), **kafka}
    _check_client_settings(kafka, place)
    values = {option.name: option.default for option in OPTIONS.values() if place in option.places}
    for name, text in lowered.items():
        if _is_client_setting(name) or name.startswith(REGISTRY_PREFIX):
            continue
        option = OPTIONS.get(name)
        if option is None:
            raise OptionError(_explain_unknown(name, place))
        if place in option.ignored_in:
            logger.warning("option %s has no effect in %s", option.name, place.value)
        elif place not in option.places:
            places = " or ".join(sorted(allowed.value for allowed in option.places))
            raise OptionError(f"option {option.name} is not valid in {place.value}, only in {places}")
        else:
            values[option.name] = parse_value(option, text)
    return ParsedOptions(place, values, kafka, _registry_settings(lowered, values))


def _registry_settings(lowered: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    given = {name: text for name, text in lowered.items() if name.startswith(REGISTRY_PREFIX)}
    if given and not values.get("table"):
        raise OptionError(f"option {min(given)} has a meaning only with the option table")
    # Confluent's names begin with `schema.`, except those of HTTP alone.
    return {
        name.removeprefix(REGISTRY_PREFIX) if name.startswith("registry.http.") else f"schema.{name}": text
        for name, text in given.items()
    }


def parse_value(option: Option, text: str) -> Any:
    return read_value(option.name, option.kind, text)


def read_value(name: str, kind: OptionKind, text: str) -> Any:
    try:
        return kind.parse(text.strip())
    except DurationError as error:
        raise refuse_value(name, text, kind.accepts, error.why) from None
    except (ValueError, KeyError):
        raise refuse_value(name, text, kind.accepts) from None


def refuse_value(name: str, text: object, accepts: str, why: str = "") -> OptionError:
    return OptionError(f"option {name} is {str(text)!r}; it accepts {accepts}" + (f" ({why})" if why else ""))


def _read_client_file(path: str) -> dict[str, str]:
    try:
        return read_properties(Path(path))
    except ConfigError as error:
        raise OptionError(f"option {CLIENT_FILE.name}: {error.message}") from error


def _is_client_setting(name: str) -> bool:
    # "kafkaConsumer.pollTimeoutMs" begins alike, but is an option of the source.
    return name.startswith(KAFKA_PREFIX)


def _check_client_settings(kafka: Mapping[str, str], place: OptionScope) -> None:
    for places, refused in _REFUSED_SETTINGS.items():
        if place in places:
            for name in kafka.keys() & refused.keys():
                raise OptionError(f"option kafka.{name} is not supported: {refused[name]}")
    if not kafka.get("bootstrap.servers", "").strip():
        raise OptionError("option kafka.bootstrap.servers must be given: HOST:PORT, several separated by commas")


def _explain_unknown(name: str, place: OptionScope) -> str:
    known = {lowered: option.name for lowered, option in OPTIONS.items() if place in option.places}
    near = difflib.get_close_matches(name, [*known, "kafka.bootstrap.servers"], n=1, cutoff=0.6)
    hint = f"did you mean {known.get(near[0], near[0])}?" if near else "client settings begin with kafka., others are: "
    return f"there is no option {name}; {hint if near else hint + ', '.join(sorted(known.values()))}"
