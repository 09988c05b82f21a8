"""Reading partitions back from their start to their end, with a real client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.testing.fleet.patience import PATIENT
from penstock.testing.history import Where

READ_TIMEOUT_S = 120.0
# A transaction that a dead client left open is aborted after its timeout, and Kafka looks for those every ten seconds.
STABLE_TIMEOUT_S = 60.0


def read_everything(
    servers: str, targets: Sequence[Where], isolation: str = "read_committed", check_crcs: bool = True
) -> Iterable[Message]:
    """All records up to the end as a reader of that isolation sees it. TimeoutError if the end is not reached."""
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        **PATIENT,
        "group.id": "proof-check",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "error",
        "check.crcs": check_crcs,
    }
    consumer = Consumer(config)
    try:
        left = set(targets)
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in left])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {sorted(left)} was not reached within {READ_TIMEOUT_S} s")
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise RuntimeError(f"reading back failed: {error}")
                deadline = time.monotonic() + READ_TIMEOUT_S
                if error is None:
                    yield message
                else:
                    left.discard((str(message.topic()), message.partition() or 0))
    finally:
        consumer.close()


def is_stable_soon(servers: str, targets: Sequence[Where]) -> bool:
    """Waits until no transaction is open any more; False if that takes too long."""
    admin = AdminClient({"bootstrap.servers": servers, **PATIENT})

    def ends(isolation: IsolationLevel) -> list[int]:
        asked = {TopicPartition(*target): OffsetSpec.latest() for target in targets}
        answers = admin.list_offsets(asked, isolation_level=isolation)
        return [future.result(READ_TIMEOUT_S).offset for future in answers.values()]

    deadline = time.monotonic() + STABLE_TIMEOUT_S
    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
