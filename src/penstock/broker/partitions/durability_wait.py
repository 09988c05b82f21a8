"""Waits until an append may be acknowledged: the append is on disk, as far as flush.messages asks for that, and on all
in-sync replicas. Also decides when an answer from memory may go out: no other broker led at the time of the lookup.

Coordinators, the writers of markers and the audit trail share this. They wait for replicas where producers wait
(`Partition.wait_until_replicated`), but within one leader epoch only. A partition with one replica has its high
watermark at its end, so the append never waits for replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.partitions.confirmations import Confirmations
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.leader_context import LeaderContext
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.purgatory import Waiter
from penstock.protocol.errors import ErrorCode
from penstock.replication.leader_state import LeaderState
from penstock.replication.lease import LEASE_MS


class Appended(NamedTuple):
    """The end of an append, and its leader epoch: another leader may truncate it, and have other records up to that
    offset.
    """

    partition: Partition
    leader_epoch: int
    end_offset: int

    @classmethod
    def now(cls, partition: Partition) -> Appended:
        return cls(partition, partition.state.leader_epoch, partition.log.log_end_offset)

    @property
    def is_replicated(self) -> bool:
        partition, leader_epoch, end_offset = self
        is_same = partition.is_leader and partition.state.leader_epoch == leader_epoch
        return is_same and partition.log.high_watermark >= end_offset

    def wait_until_replicated(self, timeout_ms: int) -> asyncio.Future[ErrorCode]:
        partition, leader_epoch, end_offset = self
        # Followers get no more records of a log that is offline.
        patience_ms = timeout_ms if partition.log.offline_reason is None else 0
        return partition.wait_until_replicated(end_offset, patience_ms, leader_epoch)


async def settle(flusher: Flusher, appended: Iterable[Appended], timeout_ms: int) -> dict[Partition, ErrorCode]:
    """Returns once all appends may be acknowledged, with the errors of those that may not.

    KAFKA_STORAGE_ERROR: the log is offline now. NOT_LEADER_OR_FOLLOWER: the leader epoch of the append is over, or
    this broker is suspended, and another may lead; the records may stay all the same. (A producer's write waits on
    where this broker may lead again: `penstock.replication.acknowledgements` has the reasons.) REQUEST_TIMED_OUT and
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: the records stay, and may be replicated later.
    """
    unique = list(dict.fromkeys(appended))
    # The wait for replicas begins now, and not after the disk: it must notice a leadership that ends meanwhile.
    replications = [
        (each.partition, each.wait_until_replicated(timeout_ms)) for each in unique if not each.is_replicated
    ]
    try:
        partitions = dict.fromkeys(each.partition for each in unique)
        to_flush = [partition for partition in partitions if partition.log.flushing.is_owed()]
        failed = await flusher.flush(to_flush) if to_flush else ()
        errors = dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR)
        for partition, replication in replications:
            if partition not in errors and (code := _with_failed_disk(partition, await replication)):
                errors[partition] = code
        return errors
    finally:
        for _, replication in replications:
            replication.cancel()


def _with_failed_disk(partition: Partition, code: ErrorCode) -> ErrorCode:
    """The code for a log that may have gone offline meanwhile: unless another broker leads, the disk is the reason."""
    is_lost = code is not ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.log.offline_reason is not None
    return ErrorCode.KAFKA_STORAGE_ERROR if is_lost else code


class Question(NamedTuple):
    """A question to the in-sync followers of a partition: whether they still follow."""

    partition: Partition
    leading: LeaderState
    confirmations: Confirmations
    number: int
    deadline: float  # by then the lease is over, or the session is sure again

    async def is_confirmed(self) -> bool:
        partition, leading, confirmations, number, deadline = self
        loop = asyncio.get_running_loop()
        while partition.leading is leading:
            if leading.have_followed_since(number):
                return True
            left = deadline - loop.time()
            if left <= 0:
                break
            await Waiter(1).wait((partition, confirmations), max(1, int(left * 1000)))
        return False


def ask_followers(context: LeaderContext, partitions: Iterable[Partition]) -> list[Question]:
    """Asks the followers where the session with the store is not sure, so that one of them may lead."""
    if context.is_session_sure():
        return []
    deadline, confirmations = asyncio.get_running_loop().time() + LEASE_MS / 1000, context.confirmations
    return [
        Question(partition, leading, confirmations, confirmations.ask(leading.watches), deadline)
        for partition in partitions
        if (leading := partition.leading) is not None
    ]
