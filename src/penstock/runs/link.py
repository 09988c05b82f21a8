"""A run's connection to the two topics: records out, commands in. Nothing of it may hold the run up.

A producer that cannot deliver drops records after a while, since an old heartbeat is worth nothing; the last trouble is
in `trouble`. All calls come from the publisher's thread.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.runs.overview import Overview
from penstock.runs.reader import CONSUMER_SETTINGS, RunsReader, find_partitions
from penstock.runs.records import Command, Ignored, decode_command
from penstock.runs.topics import RunTopics, create_missing

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

logger = logging.getLogger(__name__)
# librdkafka's own log lines, silent unless a handler is added.
_LIBRDKAFKA_LOG = logging.getLogger("penstock.runs.librdkafka")
_LIBRDKAFKA_LOG.addHandler(logging.NullHandler())

_REQUEST_TIMEOUT_S: Final = 5.0
_READ_TIMEOUT_S: Final = 10.0
_SETTLING: Final = RetryPolicy(patience_s=5.0, first_pause_s=0.1, longest_pause_s=0.5)
_PRODUCER_SETTINGS: Final[Mapping[str, str | int]] = {
    "linger.ms": 0,
    "max.in.flight.requests.per.connection": 1,  # or a retry could bring an older state after a newer one
    "message.timeout.ms": 10_000,
    "queue.buffering.max.messages": 1000,
}


class LinkError(Exception):
    """The topics cannot be used. `is_final`: trying again cannot help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class ReceivedCommand(NamedTuple):
    command: Command
    age_ms: int  # by the broker's clock, where that is known


class Link(Protocol):
    trouble: str  # why the last record was not delivered; empty: it was

    def connect(self) -> None:
        """Creates the topics where they are missing, and begins to read commands. Raises LinkError."""

    def send(self, key: bytes, value: bytes | None) -> None: ...

    def receive(self, timeout_s: float) -> list[ReceivedCommand]:
        """The commands that have come, after at most that long."""

    def read_overview(self) -> Overview: ...

    def close(self, timeout_s: float) -> None:
        """Waits that long for the delivery of the records."""


class KafkaLink:
    """`settings` are librdkafka's, `bootstrap.servers` among them."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: RunTopics,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._settings = {"client.id": "penstock-run", **settings}
        self._topics = topics
        self._now_ms = now_ms
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._broker_ahead_ms = 0  # the broker's clock against ours, as of the last delivery
        self.trouble = ""

    def connect(self) -> None:
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient

        with _as_link_errors(is_final=True):
            admin = AdminClient({**self._settings, "log_level": 0})
            consumer = Consumer(self._consumer_settings | {"enable.partition.eof": False})
            producer = Producer({**self._settings, "logger": _LIBRDKAFKA_LOG, **_PRODUCER_SETTINGS})
        try:
            with _as_link_errors():
                create_missing(admin, self._topics)
                self._follow_commands(consumer)
        except LinkError:
            consumer.close()
            raise
        self._consumer, self._producer = consumer, producer

    @property
    def _consumer_settings(self) -> dict[str, Any]:
        return {**self._settings, "logger": _LIBRDKAFKA_LOG, **CONSUMER_SETTINGS}

    def _follow_commands(self, consumer: Consumer) -> None:
        """From the end as it is now, not as it is when the first fetch gets through: no sender knows this run yet, so
        no earlier command is for it, and it must miss no later one. A topic that was just made may take a moment to be
        known to every broker."""
        from confluent_kafka import KafkaException, TopicPartition

        topic = self._topics.commands

        def find_ends() -> dict[int, int]:
            partitions = find_partitions(consumer, topic)
            if not partitions:
                raise LinkError(f"the topic {topic} is not there")
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_REQUEST_TIMEOUT_S)[1]
                for number in partitions
            }

        ends = Retrying(_SETTLING).run(find_ends, (LinkError, KafkaException), _judge)
        consumer.assign([TopicPartition(topic, number, end) for number, end in ends.items()])

    def send(self, key: bytes, value: bytes | None) -> None:
        assert self._producer is not None, "connect comes first"
        try:
            self._producer.produce(self._topics.runs, value, key, on_delivery=self._delivered)
        except BufferError:
            self.trouble = "the producer's queue is full"
        self._producer.poll(0)

    def _delivered(self, error: Any, message: Message) -> None:
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        if error is not None:
            self.trouble = error.str()
            return
        self.trouble = ""
        kind, at_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self._broker_ahead_ms = at_ms - self._now_ms()

    def receive(self, timeout_s: float) -> list[ReceivedCommand]:
        assert self._consumer is not None, "connect comes first"
        assert self._producer is not None, "connect comes first"
        self._producer.poll(0)
        received = []
        message = self._consumer.poll(timeout_s)
        while message is not None:
            if (command := self._read(message)) is not None:
                received.append(command)
            message = self._consumer.poll(0)
        return received

    def _read(self, message: Message) -> ReceivedCommand | None:
        if message.error() is not None:
            logger.debug("%s: %s", self._topics.commands, message.error())
            return None
        command = decode_command(message.value())
        if isinstance(command, Ignored):
            logger.debug("%s, offset %d is ignored: %s", self._topics.commands, message.offset(), command.reason)
            return None
        return ReceivedCommand(command, max(0, self._now_ms() + self._broker_ahead_ms - message.timestamp()[1]))

    def read_overview(self) -> Overview:
        from confluent_kafka import Consumer

        with _as_link_errors():
            reader = RunsReader(Consumer(self._consumer_settings), self._topics.runs)
            try:
                reader.read_to_end(_READ_TIMEOUT_S)
                return reader.overview
            finally:
                reader.close()

    def close(self, timeout_s: float) -> None:
        if self._producer is not None:
            self._producer.flush(timeout_s)
        if self._consumer is not None:
            self._consumer.close()


@contextlib.contextmanager
def _as_link_errors(*, is_final: bool = False) -> Iterator[None]:
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise LinkError(error.args[0].str(), is_final=is_final) from error
    except (FutureTimeoutError, TimeoutError) as error:
        raise LinkError("no broker answered in time") from error


def _judge(error: Exception) -> Outlook:
    is_refused = not isinstance(error, LinkError) and "AUTHORIZATION" in error.args[0].name()
    return Outlook.FINAL if is_refused else Outlook.PASSING
