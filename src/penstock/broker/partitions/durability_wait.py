"""Waits until an append may be acknowledged: the append is on disk, as far as flush.messages asks for that, and on all
in-sync replicas. Also decides when an answer from memory may go out: no other broker led at the time of the lookup.

Coordinators and the writers of markers share this. A partition with one replica has its high watermark at its end, so
the append never waits for replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.partitions.confirmations import Confirmations
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.leader_state import LeaderContext, Leading
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.purgatory import Waiter
from penstock.protocol.errors import ErrorCode
from penstock.replication.in_sync import is_below_minimum
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


async def settle(flusher: Flusher, appended: Iterable[Appended], timeout_ms: int) -> dict[Partition, ErrorCode]:
    """Returns once all appends may be acknowledged, with the errors of those that may not.

    KAFKA_STORAGE_ERROR: the log is offline now. NOT_LEADER_OR_FOLLOWER: another broker leads, and may truncate the
    append; or this broker is suspended, and another may lead. (A producer's write waits in these cases, because its
    client would take the error for "not written". Coordinators and writers of markers may repeat their appends, whether
    the records are in the log or not, so their clients look for the leader at once.) REQUEST_TIMED_OUT and
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: the records stay, and may be replicated later.
    """
    unique = list(dict.fromkeys(appended))
    # The wait for replicas begins now, and not after the disk: it must notice a leadership that ends meanwhile.
    replications = [
        (each.partition, asyncio.ensure_future(_wait(*each, timeout_ms))) for each in unique if not each.is_replicated
    ]
    try:
        partitions = dict.fromkeys(each.partition for each in unique)
        to_flush = [partition for partition in partitions if partition.log.flushing.is_owed()]
        failed = await flusher.flush(to_flush) if to_flush else ()
        errors = dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR)
        for partition, replication in replications:
            if partition not in errors and (code := await replication):
                errors[partition] = code
        return errors
    finally:
        for _, replication in replications:
            replication.cancel()


async def _wait(partition: Partition, leader_epoch: int, end_offset: int, timeout_ms: int) -> ErrorCode:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while True:
        state, log = partition.state, partition.log
        if state.leader_epoch != leader_epoch or not partition.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if log.high_watermark >= end_offset:
            is_too_few = is_below_minimum(len(state.isr), log.settings.min_insync_replicas, len(state.replicas))
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if is_too_few else ErrorCode.NONE
        left = deadline - loop.time()
        if left <= 0:
            return ErrorCode.REQUEST_TIMED_OUT
        await Waiter(1).wait((partition,), max(1, int(left * 1000)))


class Question(NamedTuple):
    """A question to the in-sync followers of a partition: whether they still follow."""

    partition: Partition
    leading: Leading
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
