"""Senders without transactions, which wait for each batch of records."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from penstock.testing.fleet.client import Client
from penstock.testing.fleet.values import encode_value
from penstock.testing.history import Outcome, Send, Where


class SentBatch:
    """Records sent together, and the outcome of each."""

    def __init__(self, client: Client, producer: Producer) -> None:
        self._client = client
        self._producer = producer
        self.sends: list[Send] = []
        self.waiting = 0
        self.failed = 0

    def send(self, target: Where) -> None:
        number = self._client.recorder.take_value()
        report = partial(self._report, len(self.sends))
        self._producer.produce(target[0], encode_value(number), partition=target[1], on_delivery=report)
        self.sends.append(Send(*target, number))
        self.waiting += 1

    def _report(self, index: int, error: KafkaError | None, message: Message) -> None:
        self.waiting -= 1
        offset = message.offset()
        if error is not None:
            self.failed += 1
        elif offset is not None and offset >= 0:
            self.sends[index] = replace(self.sends[index], offset=offset)

    def wait(self) -> None:
        while self.waiting and not self._client.has_given_up:
            self._producer.poll(0.1)


class BatchSender(Client):
    """Idempotent. A producer that does not know the outcome of a batch is replaced, under a new process number, since
    no order is promised between the sends of two producers.
    """

    _producer: Producer | None = None

    def step(self) -> None:
        if self._producer is None:
            self._producer = Producer({**self.base_config, "enable.idempotence": True, "linger.ms": 1})
        invoked = self.recorder.take_position()
        batch = SentBatch(self, self._producer)
        for _ in range(self.random.randint(1, 8)):
            batch.send(self.random.choice(self.targets))
        batch.wait()
        is_known = all(send.offset is not None for send in batch.sends)
        self.recorder.record(self.process, Outcome.OK if is_known else Outcome.UNKNOWN, batch.sends, invoked)
        if not is_known:
            self._producer, self.process = None, self.recorder.take_process()
