"""Writes that begin a transaction while the producer's former one is still being ended.

The codes are those of Kafka 4.3.1 (ReplicaManager.handleProduceAppend): it tries again for
add.partitions.to.txn.retry.backoff.max.ms, then a client of transaction.version 2 gets the coordinator's own error and
an older one NOT_ENOUGH_REPLICAS, which makes any producer try again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from tests.clients.raw.transactional import OLD_ADD, TRANSACTIONAL, RawProducer
from tests.clients.raw.wire import Topic, Wire, build_batch, create_topic, produce_request
from tests.integration.served import served
from tests.unit.broker.harness import GatedFiles

OLDER, NEWER = 11, 12
SYNCED = {"flush.messages": "1"}


@contextmanager
def ending(tmp_path: Path, *, is_new: bool, patience_ms: int) -> Iterator[tuple[RawProducer, Topic, GatedFiles]]:
    """A producer whose transaction is decided, but not complete: the disk has not taken its marker."""
    files = GatedFiles()
    config = {"add.partitions.to.txn.retry.backoff.max.ms": str(patience_ms)}
    with served([tmp_path / "data"], files, config) as server:
        with BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection:
            wire = Wire(connection)
            synced, other = create_topic(wire, configs=SYNCED), create_topic(wire)
            producer = RawProducer(wire, is_new=is_new).init()
            if not is_new:
                assert producer.add(synced) == [ErrorCode.NONE]
            files.let_pass(1)
            assert producer.produce(synced) is ErrorCode.NONE
            producer.end(is_commit=True)
            yield producer, other, files
        files.let_pass()


def write(producer: RawProducer, topic: Topic, version: int) -> ErrorCode:
    """Once: what the client is told, not what comes of trying again."""
    batch = build_batch(
        (b"value",),
        attributes=TRANSACTIONAL,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=0,
    )
    request = produce_request(topic, {0: batch})
    request.transactional_id = producer.transactional_id
    return ErrorCode(producer.wire(request, version).responses[0].partition_responses[0].error_code)


def test_newer_producer_is_told_of_concurrent_transactions_when_the_former_one_does_not_end(tmp_path: Path) -> None:
    with ending(tmp_path, is_new=True, patience_ms=40) as (producer, topic, files):
        assert write(producer, topic, NEWER) is ErrorCode.CONCURRENT_TRANSACTIONS
        files.let_pass()


def test_older_producer_is_told_to_try_again_when_the_former_transaction_does_not_end(tmp_path: Path) -> None:
    with ending(tmp_path, is_new=False, patience_ms=40) as (producer, topic, files):
        assert write(producer, topic, OLDER) is ErrorCode.NOT_ENOUGH_REPLICAS
        files.let_pass()


def test_write_is_taken_when_the_former_transaction_ends_in_time(tmp_path: Path) -> None:
    with ending(tmp_path, is_new=True, patience_ms=20_000) as (producer, topic, files):
        files.arrived.acquire()  # that of the record
        files.arrived.acquire(timeout=20)  # that of the marker
        threading.Timer(0.05, files.let_pass).start()
        assert write(producer, topic, NEWER) is ErrorCode.NONE
        producer.end(is_commit=True)


def test_older_producer_can_go_on_when_the_former_transaction_has_ended(tmp_path: Path) -> None:
    with ending(tmp_path, is_new=False, patience_ms=0) as (producer, topic, files):
        files.let_pass()
        assert producer.add(topic, version=OLD_ADD) == [ErrorCode.NONE]
        assert write(producer, topic, OLDER) is ErrorCode.NONE
