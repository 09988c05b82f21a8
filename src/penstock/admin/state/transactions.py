"""Transactions, as their coordinators tell them."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.types import TopicPartition


class ListedTransaction(NamedTuple):
    transactional_id: str
    state: str  # Kafka's word: Empty, Ongoing, PrepareCommit, ...
    producer_id: int
    coordinator: int


class TransactionState(NamedTuple):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    started_ms: int | None  # None where no transaction is open
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(NamedTuple):
    """As the leader of one partition knows it. `coordinator_epoch` is -1 where no coordinator has written there yet."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
