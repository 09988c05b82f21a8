"""The copier of the exactly-once rounds: a process that copies records in transactions until it is killed.

    python -m proof.crash.copier SERVERS SEED

Each record goes to the same partition of the output. What was read is committed in the same transaction. Now and then
the copier aborts, and reads the same records again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.testing.fleet.patience import PATIENT

INPUT, OUTPUT, GROUP = "exactly-once-input", "exactly-once-output", "exactly-once"
PARTITIONS = 2
# Small transactions, so that a kill meets every step of one; a few seconds until a dead copier's transaction ends.
_BATCH = 20
_ABORT_EVERY = 10
_TRANSACTION_TIMEOUT_MS = 10_000
_CALL_TIMEOUT_S = 10.0
_STUCK_AFTER_S = 5.0  # a call that lasts longer is given up; see bounded_call


def copy(servers: str, seed: int) -> None:
    """Copies until the process is killed. After a failure it starts over from the committed offsets."""
    random_numbers = random.Random(seed)
    while True:
        try:
            _copy_until_something_fails(servers, random_numbers)
        except (KafkaException, StuckCallError) as error:
            print(f"the copier starts over: {error}", flush=True)


def _copy_until_something_fails(servers: str, random_numbers: random.Random) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            **PATIENT,
            "transactional.id": "exactly-once-copier",
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "linger.ms": 1,
        }
    )
    producer.init_transactions(_CALL_TIMEOUT_S)  # first: it ends what an earlier copier left open
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            **PATIENT,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        _rewind(consumer)
        while True:
            messages = consumer.consume(_BATCH, 0.1)
            if messages:
                _copy_batch(producer, consumer, messages, is_commit=random_numbers.randrange(_ABORT_EVERY) > 0)
    finally:
        consumer.close()


def _copy_batch(producer: Producer, consumer: Consumer, messages: Sequence[Any], is_commit: bool) -> None:
    producer.begin_transaction()
    next_offsets: dict[int, int] = {}
    for message in messages:
        if message.error() is not None:
            raise KafkaException(message.error())
        producer.produce(OUTPUT, message.value(), partition=message.partition())
        next_offsets[message.partition()] = message.offset() + 1
    offsets = [TopicPartition(INPUT, partition, offset) for partition, offset in next_offsets.items()]
    group = consumer.consumer_group_metadata()
    call_within(lambda: producer.send_offsets_to_transaction(offsets, group, _CALL_TIMEOUT_S), _STUCK_AFTER_S)
    if is_commit:
        try:
            producer.commit_transaction(_CALL_TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
    producer.abort_transaction(_CALL_TIMEOUT_S)
    _rewind(consumer)


def _rewind(consumer: Consumer) -> None:
    partitions = [TopicPartition(INPUT, number) for number in range(PARTITIONS)]
    committed = consumer.committed(partitions, _CALL_TIMEOUT_S)
    for partition in committed:
        partition.offset = max(partition.offset, 0)
    consumer.assign(committed)


if __name__ == "__main__":
    copy(sys.argv[1], int(sys.argv[2]))
