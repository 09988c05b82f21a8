"""The options of a write, parsed: where rows go, what is promised, and the producer's settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.pipelines.kafka.client_settings import to_librdkafka
from penstock.pipelines.options import OptionError, OptionScope, ParsedOptions, parse_options, refuse_value

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
# A stream repeats its last batch after a failure, under the same id; a batch write has nothing to be known again by.
DEFAULT_GUARANTEES = {OptionScope.STREAM_WRITE: EXACTLY_ONCE, OptionScope.BATCH_WRITE: AT_LEAST_ONCE}
DEFAULT_SINK_NAME = "sink"

# As the Java producer's delivery.timeout.ms.
_MESSAGE_TIMEOUT_MS = 120_000
# Long enough for a task with much to write, and below the fifteen minutes that brokers allow by default: a task that
# dies in the middle holds up read_committed readers of the topic until its successor comes, or for this long.
_TRANSACTION_TIMEOUT_MS = 300_000
# Under load batches are full before that; the end of a task does not wait for it.
_LINGER_MS = 20
# The bytes that wait in a worker's memory to be sent: enough to keep the brokers busy while the next rows come.
_QUEUE_KBYTES, _QUEUE_MESSAGES = 64 * 1024, 300_000

_PARTITIONERS = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2_random",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "random",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "random",
}
_SURE_ACKS = frozenset({"all", "-1"})


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Travels to the executors."""

    settings: Mapping[str, str]  # librdkafka's names
    topic: str | None = None
    guarantee: Literal["exactly-once", "at-least-once"] = "at-least-once"
    # None: taken from Spark, which knows it in a streaming write.
    query_id: str | None = None
    batch_id: int | None = None
    sink_name: str = DEFAULT_SINK_NAME
    includes_timestamp: bool = False  # a column `timestamp` is the record's time
    client_settings: Mapping[str, str] = field(default_factory=dict)  # those that are not a producer's alone

    @property
    def is_exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE

    @property
    def message_timeout_s(self) -> float:
        return int(self.settings["message.timeout.ms"]) / 1000


def parse_sink_options(given: Mapping[str, str], place: OptionScope) -> SinkOptions:
    """OptionError names the option that is wrong and what it accepts."""
    options = parse_options(given, place)
    guarantee = options["guarantee"] or DEFAULT_GUARANTEES[place]
    if place is OptionScope.BATCH_WRITE and guarantee == EXACTLY_ONCE:
        _check_identity(options)
    settings = _producer_settings(options.kafka, guarantee)
    return SinkOptions(
        settings=settings,
        topic=options["topic"],
        guarantee=guarantee,  # type: ignore[arg-type]  # the table accepts no other
        query_id=options["queryId"],
        batch_id=options["batchId"],
        sink_name=options["sinkName"] or DEFAULT_SINK_NAME,
        includes_timestamp=options["includeTimestamp"],
        client_settings=_shared_settings(options.kafka),
    )


def _check_identity(options: ParsedOptions) -> None:
    """Guessing any of them could make two writes look like one, and the second would be left out."""
    missing = [name for name in ("queryId", "batchId", "sinkName") if not options.given(name)]
    if missing:
        raise OptionError(
            f"option guarantee is 'exactly-once'; in a batch write it also needs {', '.join(missing)}: what names this"
            " write now and when it is repeated (in foreachBatch: the query's id, the batch's id, and a name per sink)"
        )


def _producer_settings(kafka: Mapping[str, str], guarantee: str) -> dict[str, str]:
    own = {name: value for name, value in kafka.items() if name not in _TRANSLATED_HERE}
    settings = {
        "partitioner": "murmur2_random",  # where Java's producer puts a key
        "linger.ms": str(_LINGER_MS),
        "message.timeout.ms": str(_MESSAGE_TIMEOUT_MS),
        "queue.buffering.max.kbytes": str(_QUEUE_KBYTES),
        "queue.buffering.max.messages": str(_QUEUE_MESSAGES),
        **to_librdkafka(own),
        **_translate_here(kafka),
    }
    if guarantee == EXACTLY_ONCE:
        return settings | _transactional_settings(settings)
    _number(settings, "message.timeout.ms", "kafka.delivery.timeout.ms")
    # Java's producer gives idempotence up as quietly when it is not to wait for every replica.
    sure = settings.get("acks", "all").lower() in _SURE_ACKS
    return {"enable.idempotence": "true" if sure else "false"} | settings


def _transactional_settings(settings: Mapping[str, str]) -> dict[str, str]:
    if settings.get("acks", "all").lower() not in _SURE_ACKS:
        raise refuse_value("kafka.acks", settings["acks"], "all, since the guarantee is exactly-once")
    if settings.get("enable.idempotence", "true").lower() != "true":
        raise refuse_value("kafka.enable.idempotence", "false", "true, since the guarantee is exactly-once")
    settings = {"transaction.timeout.ms": str(_TRANSACTION_TIMEOUT_MS), **settings}
    timeout_ms = _number(settings, "transaction.timeout.ms", "kafka.transaction.timeout.ms")
    message_timeout_ms = _number(settings, "message.timeout.ms", "kafka.delivery.timeout.ms")
    # A record that outlives its transaction can only make it fail; librdkafka refuses to start so.
    return {
        "enable.idempotence": "true",
        "transaction.timeout.ms": str(timeout_ms),
        "message.timeout.ms": str(min(message_timeout_ms, timeout_ms)),
    }


def _number(settings: Mapping[str, str], name: str, shown: str) -> int:
    text = settings[name].strip()
    if not text.isdecimal() or not 1000 <= int(text) < 2**31:
        raise refuse_value(shown, text, "milliseconds, from 1000 to 2147483647")
    return int(text)


def _partitioner(text: str) -> dict[str, str]:
    known = _PARTITIONERS.get(text)
    if known is None:
        accepted = ", ".join(_PARTITIONERS)
        raise refuse_value(
            "kafka.partitioner.class", text, f"one of {accepted}; or kafka.partitioner with librdkafka's names"
        )
    return {"partitioner": known}


def _buffer(text: str) -> dict[str, str]:
    if not text.isdecimal():
        raise refuse_value("kafka.buffer.memory", text, "a number of bytes")
    return {"queue.buffering.max.kbytes": str(max(1, int(text) // 1024))}


def _key_blindness(text: str) -> dict[str, str]:
    return {"partitioner": "random"} if text.lower() == "true" else {}


# Settings of Java's producer that have a counterpart but neither its name nor its values.
_TRANSLATED_HERE = {
    "partitioner.class": _partitioner,
    "buffer.memory": _buffer,
    "partitioner.ignore.keys": _key_blindness,
}


def _translate_here(kafka: Mapping[str, str]) -> dict[str, str]:
    translated: dict[str, str] = {}
    for name, translate in _TRANSLATED_HERE.items():
        if name in kafka:
            translated |= translate(kafka[name])
    return translated


_SHARED_PREFIXES = ("bootstrap.", "security.", "sasl.", "ssl.", "client.", "broker.address.", "enable.ssl.", "https.")


def _shared_settings(kafka: Mapping[str, str]) -> dict[str, str]:
    """For the client that reads markers: the brokers' addresses and the login."""
    return to_librdkafka({name: value for name, value in kafka.items() if name.startswith(_SHARED_PREFIXES)})
