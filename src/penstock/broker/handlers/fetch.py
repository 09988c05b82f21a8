"""Fetch: slices of segment files to consumers, at once or when enough has arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from itertools import islice

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPlan, FetchTarget, PartitionKey
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.waiting import Waiter
from penstock.broker.session import RequestContext
from penstock.broker.slices import Work
from penstock.core.types import TopicId
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_FIRST_VERSION_WITH_SESSIONS = 7
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_READ_COMMITTED = 1
# Partitions that are read in one turn of the loop: some 2 ms where all of them have data.
_MANY = 200


class _Read:
    """One pass over the partitions of a fetch: what was found, and which partitions it came from."""

    __slots__ = ("answers", "at_once", "room", "size")

    def __init__(self, room: int) -> None:
        self.answers: list[tuple[FetchTarget, Partition | None, PartitionData]] = []
        self.room = room  # bytes that the response may still take
        self.size = 0
        self.at_once = False  # an error or a divergence is told without waiting


def fetch(broker: Broker, context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Reads batches from partitions, at once or when `min_bytes` have arrived or `max_wait_ms` are over.

    From version 7 on a session may remember what the client fetches (KIP-227). From version 12 on a reader says which
    epoch it has read last, and is told if its log diverges (KIP-595). From version 13 on topics have ids instead of
    names.
    """
    # As much as the answer may hold is enough; waiting for more would be waiting for ever.
    request.min_bytes = min(request.min_bytes, request.max_bytes, broker.config.requests.fetch_max_bytes)
    named = sum([len(topic.partitions) for topic in request.topics])
    if named + len(request.forgotten_topics_data) > _MANY:
        return _fetch_many(broker, context, request)
    try:
        targets = [*_targets(context, request)]
        plan = _plan(broker, context, request, targets, [*_forgotten(context, request)])
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    if len(plan.targets) > _MANY:
        return _serve_in_slices(broker, context, request, plan)
    read = _read(broker, context, request, plan.targets)
    if _is_complete(request, read, plan):
        return _respond(plan, read)
    return _wait(broker, context, request, plan, _watch(request, read, request.max_wait_ms))


def _targets(context: RequestContext, request: FetchRequest) -> Iterator[FetchTarget]:
    by_id = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    for topic in request.topics:
        for partition in topic.partitions:
            yield FetchTarget(
                topic.topic_id if by_id else topic.topic,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
            )


def _forgotten(context: RequestContext, request: FetchRequest) -> Iterator[PartitionKey]:
    by_id = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield topic.topic_id if by_id else topic.topic, partition


def _plan(
    broker: Broker,
    context: RequestContext,
    request: FetchRequest,
    targets: list[FetchTarget],
    forgotten: list[PartitionKey],
) -> FetchPlan:
    if context.api_version < _FIRST_VERSION_WITH_SESSIONS:
        return FetchPlan(targets)
    if request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION:
        return FetchPlan(targets)
    return broker.fetch_sessions.plan(
        request.session_id,
        request.session_epoch,
        targets,
        forgotten,
        context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS,
        broker.clock.monotonic_ms(),
    )


# ---------------------------------------------------------------------------- many partitions


async def _fetch_many(broker: Broker, context: RequestContext, request: FetchRequest) -> FetchResponse:
    try:
        plan = await broker.slices.run(_plan_in_slices(broker, context, request))
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    return await _serve_in_slices(broker, context, request, plan)


def _plan_in_slices(broker: Broker, context: RequestContext, request: FetchRequest) -> Work[FetchPlan]:
    targets, forgotten = _targets(context, request), _forgotten(context, request)
    plan = _plan(broker, context, request, [*islice(targets, _MANY)], [*islice(forgotten, _MANY)])
    while True:
        yield
        more, gone = [*islice(targets, _MANY)], [*islice(forgotten, _MANY)]
        if not more and not gone:
            break
        broker.fetch_sessions.extend(plan, more, gone)
    broker.fetch_sessions.complete(plan)
    return plan


async def _serve_in_slices(
    broker: Broker, context: RequestContext, request: FetchRequest, plan: FetchPlan
) -> FetchResponse:
    """A partition is watched from before it is read on, since the others are read in later turns of the loop. What
    arrives meanwhile may be counted twice, so that the wait ends early; then everything is read again.
    """
    deadline_ms = broker.clock.monotonic_ms() + request.max_wait_ms
    while True:
        waiter = Waiter(request.min_bytes)
        try:
            read = await broker.slices.run(_read_in_slices(broker, context, request, plan.targets, waiter))
            left_ms = deadline_ms - broker.clock.monotonic_ms()
            is_complete = _is_complete(request, read, plan)
            if is_complete or left_ms <= 0:
                break
            waiter.arrived(read.size)
            await waiter.wait((), left_ms)
        finally:
            waiter.leave()
    if not is_complete:
        broker.metrics.purgatory.count_expired("Fetch")
    return await broker.slices.run(_respond_in_slices(plan, read))


def _read_in_slices(
    broker: Broker, context: RequestContext, request: FetchRequest, targets: list[FetchTarget], waiter: Waiter
) -> Work[_Read]:
    read = _Read(min(request.max_bytes, broker.config.requests.fetch_max_bytes))
    is_read_committed = request.isolation_level == _READ_COMMITTED
    for target in targets:
        _read_target(broker, context, target, read, is_read_committed, waiter)
        yield
    return read


def _respond_in_slices(plan: FetchPlan, read: _Read) -> Work[FetchResponse]:
    topics: _Topics = {}
    for target, partition, data in read.answers:
        _add_answer(plan, topics, target, partition, data)
        yield
    return _response(plan, topics)


# ---------------------------------------------------------------------------- reading


def _read(broker: Broker, context: RequestContext, request: FetchRequest, targets: list[FetchTarget]) -> _Read:
    """Costs about 8 us for each partition with data and 2 us for one without. The first batch found is always whole,
    so that a batch larger than the limits still gets through. Bench: consume 100 B and 1 KiB.
    """
    read = _Read(min(request.max_bytes, broker.config.requests.fetch_max_bytes))
    is_read_committed = request.isolation_level == _READ_COMMITTED
    for target in targets:
        _read_target(broker, context, target, read, is_read_committed)
    return read


def _read_target(
    broker: Broker,
    context: RequestContext,
    target: FetchTarget,
    read: _Read,
    is_read_committed: bool,
    waiter: Waiter | None = None,
) -> None:
    data = PartitionData(partition_index=target.partition, high_watermark=-1, records=b"")
    partition = None
    try:
        partition = _locate(broker, context, target)
        if waiter is not None:
            waiter.watch(partition)
        _read_partition(partition, target, data, read, is_read_committed)
    except ApiError as error:
        data = PartitionData(partition_index=target.partition, error_code=error.code, high_watermark=-1, records=b"")
        read.at_once = True
    read.answers.append((target, partition, data))


def _locate(broker: Broker, context: RequestContext, target: FetchTarget) -> Partition:
    if isinstance(target.topic, bytes):
        name = broker.partitions.topic_name(target.topic)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        name = target.topic
    if not broker.authorizer.is_allowed(context, Operation.READ, ResourceType.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = broker.partitions.find(name, target.partition)
    if partition is None:
        raise ApiError(broker.partitions.why_missing(name, target.partition))
    return partition


def _read_partition(
    partition: Partition, target: FetchTarget, data: PartitionData, read: _Read, is_read_committed: bool
) -> None:
    partition.check_leader_epoch(target.current_leader_epoch)
    data.high_watermark, data.last_stable_offset, data.log_start_offset = partition.offsets()
    if is_read_committed:
        data.aborted_transactions = []
    if target.last_fetched_epoch >= 0 and _diverges(partition, target, data):
        read.at_once = True
        return
    end = data.last_stable_offset if is_read_committed else data.high_watermark
    if target.fetch_offset == end and end >= data.log_start_offset:
        return
    limit = min(target.max_bytes, read.room)
    records = partition.read(target.fetch_offset, max(limit, 0), end, at_least_one=read.size == 0)
    if records is not None and len(records):
        data.records = records
        read.size += len(records)
        read.room -= len(records)
        if is_read_committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in partition.aborted_transactions_in(target.fetch_offset, records)
            ]


def _diverges(partition: Partition, target: FetchTarget, data: PartitionData) -> bool:
    """The reader's last epoch ended earlier here than the reader believes (KIP-595): it must cut back first."""
    epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
    if epoch == -1:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return True
    return False


def _is_complete(request: FetchRequest, read: _Read, plan: FetchPlan) -> bool:
    return request.max_wait_ms <= 0 or read.size >= request.min_bytes or read.at_once or not plan.targets


def _watch(request: FetchRequest, read: _Read, timeout_ms: int) -> asyncio.Future[None]:
    watched = [partition for _, partition, _ in read.answers if partition is not None]
    return Waiter(request.min_bytes - read.size).wait(watched, timeout_ms)


async def _wait(
    broker: Broker, context: RequestContext, request: FetchRequest, plan: FetchPlan, woken: asyncio.Future[None]
) -> FetchResponse:
    deadline_ms = broker.clock.monotonic_ms() + request.max_wait_ms
    while True:
        await woken
        read = _read(broker, context, request, plan.targets)
        left_ms = deadline_ms - broker.clock.monotonic_ms()
        if _is_complete(request, read, plan):
            break
        if left_ms <= 0:
            broker.metrics.purgatory.count_expired("Fetch")
            break
        woken = _watch(request, read, left_ms)
    return _respond(plan, read)


# ---------------------------------------------------------------------------- answering

_Topics = dict[TopicId | str, FetchableTopicResponse]


def _respond(plan: FetchPlan, read: _Read) -> FetchResponse:
    topics: _Topics = {}
    for target, partition, data in read.answers:
        _add_answer(plan, topics, target, partition, data)
    return _response(plan, topics)


def _response(plan: FetchPlan, topics: _Topics) -> FetchResponse:
    return FetchResponse(session_id=plan.session.id if plan.session else NO_SESSION, responses=list(topics.values()))


def _add_answer(
    plan: FetchPlan, topics: _Topics, target: FetchTarget, partition: Partition | None, data: PartitionData
) -> None:
    size = len(data.records or b"")
    if partition is not None:
        metrics = partition.metrics
        metrics.fetch_requests += 1
        metrics.failed_fetch_requests += data.error_code != 0
        metrics.bytes_out += size
    if plan.session is not None:
        is_told = plan.session.must_answer(
            target.key,
            data.error_code,
            data.high_watermark,
            data.log_start_offset,
            size,
            data.diverging_epoch is not None,
        )
        if plan.is_incremental and not is_told:
            return
    topic = topics.get(target.topic)
    if topic is None:
        is_id = isinstance(target.topic, bytes)
        topic = topics[target.topic] = FetchableTopicResponse(
            topic="" if is_id else target.topic,  # type: ignore[arg-type]
            topic_id=target.topic if is_id else ZERO_UUID,  # type: ignore[arg-type]
        )
    topic.partitions.append(data)
