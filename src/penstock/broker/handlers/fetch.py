"""Fetch: sends slices of segment files to consumers and followers, at once or when enough records have arrived.

A consumer reads up to the high watermark or the last stable offset, from the leader or from another replica (see
`fetch_readers`). A follower, which is a registered broker that sends its id, reads up to the end of the log. Its fetch
carries the end of its own log, which may raise the high watermark; a fetch that fails or diverges raises nothing
(KAFKA-13141). A follower that does not know the high watermark gets an answer soon, with the next records if they come
earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from itertools import islice
from typing import Protocol

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.fetch_readers import (
    FetchReader,
    FetchReaderPort,
    Read,
    diverges,
    find_nearest,
    identify,
    read_records,
)
from penstock.broker.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPlan, FetchSessions, FetchTarget, PartitionKey
from penstock.broker.handlers.brokers.follower_reads import end_pass, is_behind, note_sent, read_for_follower
from penstock.broker.handlers.current_leaders import FIRST_FETCH_VERSION, MISPLACED, current_leader, leader_nodes
from penstock.broker.partitions.follower_watch import HIGH_WATERMARK_DELAY_MS, FollowerWatch
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.purgatory import Waiter, Watched
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.types import TopicId
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FIRST_VERSION_WITH_SESSIONS = 7
_FIRST_VERSION_WITH_TOPIC_IDS = 13
# The number of partitions that one turn of the loop reads: some 2 ms where all of them have data.
_MANY = 200


class FetchPort(FetchReaderPort, Protocol):
    """The parts of the broker that fetches use."""

    fetch_sessions: FetchSessions
    metrics: BrokerMetrics
    quotas: ClientQuotas
    slices: Slices


def fetch(
    broker: FetchPort, context: RequestContext, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    """Reads batches from partitions, at once or when `min_bytes` have arrived or `max_wait_ms` are over.

    From version 7 on a session may keep the client's partitions (KIP-227). From version 12 on a reader sends the epoch
    of its last record, and the answer reports a diverging log (KIP-595). From version 13 on topics have ids instead of
    names. From version 15 on a follower sends its broker epoch (KIP-903), from version 18 on its high watermark. From
    version 16 on a refusal names the partition's leader (KIP-951).
    """
    if broker.quotas.bounds_fetches and request.replica_id < 0 and request.replica_state is None:
        request.max_bytes = broker.quotas.most_fetched(context, request.max_bytes)
    # The size limit of the answer bounds `min_bytes`: a fetch that waits for more would wait for ever.
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
    read = _read(broker, context, request, plan, is_first=True)
    if _is_complete(request, read, plan):
        return _respond(broker, context, plan, read)
    return _wait(broker, context, request, plan, _watch(request, plan, read, _patience_ms(read, request.max_wait_ms)))


def _targets(context: RequestContext, request: FetchRequest) -> Iterator[FetchTarget]:
    by_id = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    is_consumer = request.replica_id < 0 and request.replica_state is None
    for topic in request.topics:
        for partition in topic.partitions:
            target = FetchTarget(
                topic.topic_id if by_id else topic.topic,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
            )
            yield (
                target
                if is_consumer
                else target._replace(
                    log_start_offset=partition.log_start_offset, high_watermark=partition.high_watermark
                )
            )


def _forgotten(context: RequestContext, request: FetchRequest) -> Iterator[PartitionKey]:
    by_id = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield topic.topic_id if by_id else topic.topic, partition


def _plan(
    broker: FetchPort,
    context: RequestContext,
    request: FetchRequest,
    targets: list[FetchTarget],
    forgotten: list[PartitionKey],
) -> FetchPlan:
    follower = None
    if request.replica_id >= 0 or request.replica_state is not None:
        reader = identify(broker, context, request)
        if reader.may_follow and reader.follower in broker.partitions.context.brokers:
            follower = reader.follower  # otherwise the partitions answer with the error
    is_alone = request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION
    if is_alone or context.api_version < _FIRST_VERSION_WITH_SESSIONS:
        return FetchPlan(targets, watch=None if follower is None else FollowerWatch(follower))
    return broker.fetch_sessions.plan(
        request.session_id,
        request.session_epoch,
        targets,
        forgotten,
        context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS,
        broker.clock.monotonic_ms(),
        follower,
    )


# ---------------------------------------------------------------------------- many partitions


async def _fetch_many(broker: FetchPort, context: RequestContext, request: FetchRequest) -> FetchResponse:
    try:
        plan = await broker.slices.run(_plan_in_slices(broker, context, request))
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    return await _serve_in_slices(broker, context, request, plan)


def _plan_in_slices(broker: FetchPort, context: RequestContext, request: FetchRequest) -> Work[FetchPlan]:
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
    broker: FetchPort, context: RequestContext, request: FetchRequest, plan: FetchPlan
) -> FetchResponse:
    """Serves a fetch of many partitions in several turns of the loop. The fetch watches a partition from before its
    read, because later turns read the others. Records that arrive meanwhile may be counted twice and end the wait
    early; then the fetch reads everything again.
    """
    deadline_ms = broker.clock.monotonic_ms() + request.max_wait_ms
    is_first = True
    while True:
        waiter = Waiter(request.min_bytes)
        try:
            if plan.watch is not None:
                waiter.watch(plan.watch)
                if not is_first:
                    plan.look_again()
            read = await broker.slices.run(_read_in_slices(broker, context, request, plan, waiter, is_first=is_first))
            is_first = False
            left_ms = deadline_ms - broker.clock.monotonic_ms()
            is_complete = _is_complete(request, read, plan)
            if is_complete or left_ms <= 0:
                break
            waiter.arrived(read.size)
            await waiter.wait((), _patience_ms(read, left_ms))
        finally:
            waiter.leave()
    if not is_complete:
        broker.metrics.purgatory.count_expired("Fetch")
    return await broker.slices.run(_respond_in_slices(broker, context, plan, read))


def _read_in_slices(
    broker: FetchPort,
    context: RequestContext,
    request: FetchRequest,
    plan: FetchPlan,
    waiter: Waiter,
    *,
    is_first: bool,
) -> Work[Read]:
    read = Read(broker, request, identify(broker, context, request), plan.watch, is_first)
    for target in plan.targets:
        _read_target(broker, context, target, read, waiter)
        yield
    if read.followed is not None:
        end_pass(broker, plan, read)
    return read


def _respond_in_slices(broker: FetchPort, context: RequestContext, plan: FetchPlan, read: Read) -> Work[FetchResponse]:
    if broker.quotas.bounds_fetches and read.followed is None:
        throttle_ms = broker.quotas.throttle_fetch(context, read.size)
        if throttle_ms:
            return _throttled(broker, plan, throttle_ms)
    topics: _Topics = {}
    for target, watched, data in read.answers:
        _add_answer(plan, topics, target, watched, data)
        yield
    return _response(broker, context, plan, read, topics)


# ---------------------------------------------------------------------------- reading


def _read(
    broker: FetchPort, context: RequestContext, request: FetchRequest, plan: FetchPlan, *, is_first: bool
) -> Read:
    """Costs about 8 us for each partition with data and 2 us for a partition without. The first batch is always whole,
    so that a batch larger than the limits still gets through. Bench: consume 100 B and 1 KiB.
    """
    read = Read(broker, request, identify(broker, context, request), plan.watch, is_first)
    for target in plan.targets:
        _read_target(broker, context, target, read)
    if read.followed is not None:
        end_pass(broker, plan, read)
    return read


def _read_target(
    broker: FetchPort, context: RequestContext, target: FetchTarget, read: Read, waiter: Waiter | None = None
) -> None:
    data = PartitionData(partition_index=target.partition, high_watermark=-1, records=b"")
    watched: Watched | None = None
    try:
        partition = _locate(broker, context, target, read.reader)
        if read.reader.follower is None:
            watched = partition
            if waiter is not None:
                waiter.watch(partition)
            if not read.reader.rack or not _sends_elsewhere(broker, context, partition, target, data, read):
                _read_partition(partition, target, data, read)
        else:
            read_for_follower(broker, partition, target, data, read)
    except ApiError as error:
        data = PartitionData(partition_index=target.partition, error_code=error.code, high_watermark=-1, records=b"")
        read.at_once = True
        if error.code in MISPLACED and context.api_version >= FIRST_FETCH_VERSION:
            _name_leader(broker, target, data, read)
    read.answers.append((target, watched, data))


def _locate(broker: FetchPort, context: RequestContext, target: FetchTarget, reader: FetchReader) -> Partition:
    name = target.topic
    if isinstance(name, bytes):
        found = broker.partitions.topic_name(name)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        name = found
    if reader.follower is None:
        is_allowed = broker.authorizer.is_allowed(context, Operation.READ, ResourceType.TOPIC, name)
    else:
        is_allowed = reader.may_follow
    if not is_allowed:
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = broker.partitions.find(name, target.partition)
    if partition is None:
        raise ApiError(broker.partitions.why_missing(name, target.partition))
    return partition


def _topic_name(broker: FetchPort, target: FetchTarget) -> str | None:
    return broker.partitions.topic_name(target.topic) if isinstance(target.topic, bytes) else target.topic


def _sends_elsewhere(
    broker: FetchPort,
    context: RequestContext,
    partition: Partition,
    target: FetchTarget,
    data: PartitionData,
    read: Read,
) -> bool:
    """Whether another replica is nearer to the consumer: the answer names that replica instead of records (KIP-392)."""
    nearest = find_nearest(broker, context, partition, read.reader.rack, target.fetch_offset)
    if nearest is None:
        return False
    partition.check_leader_epoch(target.current_leader_epoch)
    data.high_watermark, data.last_stable_offset, data.log_start_offset = partition.offsets()
    data.preferred_read_replica = nearest
    read.at_once = True
    return True


def _read_partition(partition: Partition, target: FetchTarget, data: PartitionData, read: Read) -> None:
    reader = read.reader
    partition.check_leader_epoch(target.current_leader_epoch)
    if not partition.is_leader and (partition.suspension or not reader.may_read_follower(target.current_leader_epoch)):
        partition.check_leader()  # a suspended leader is no follower: its log may lack records of its successor
    data.high_watermark, data.last_stable_offset, data.log_start_offset = partition.offsets()
    if reader.is_read_committed:
        data.aborted_transactions = []
    if target.last_fetched_epoch >= 0 and diverges(partition, target, data):
        read.at_once = True
        return
    end = data.last_stable_offset if reader.is_read_committed else data.high_watermark
    if target.fetch_offset == end and end >= data.log_start_offset:
        return
    records = read_records(partition, target, data, read, end)
    if records is not None and reader.is_read_committed:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in partition.log.reader.aborted_transactions_in(target.fetch_offset, records)
        ]


def _is_complete(request: FetchRequest, read: Read, plan: FetchPlan) -> bool:
    has_nothing_to_wait_for = not plan.targets and plan.watch is None
    return request.max_wait_ms <= 0 or read.size >= request.min_bytes or read.at_once or has_nothing_to_wait_for


def _patience_ms(read: Read, left_ms: int) -> int:
    if read.watch is not None and (room_in_ms := read.watch.room_in_ms()) is not None:
        left_ms = min(left_ms, room_in_ms)
    return min(left_ms, HIGH_WATERMARK_DELAY_MS) if read.is_behind else left_ms


def _watch(request: FetchRequest, plan: FetchPlan, read: Read, timeout_ms: int) -> asyncio.Future[None]:
    watched: list[Watched] = [plan.watch] if plan.watch is not None else []
    watched += [each for _, each, _ in read.answers if each is not None]
    return Waiter(request.min_bytes - read.size).wait(watched, timeout_ms)


async def _wait(
    broker: FetchPort, context: RequestContext, request: FetchRequest, plan: FetchPlan, woken: asyncio.Future[None]
) -> FetchResponse:
    deadline_ms = broker.clock.monotonic_ms() + request.max_wait_ms
    while True:
        await woken
        if plan.watch is not None:
            plan.look_again()
        read = _read(broker, context, request, plan, is_first=False)
        left_ms = deadline_ms - broker.clock.monotonic_ms()
        if _is_complete(request, read, plan):
            break
        if left_ms <= 0:
            broker.metrics.purgatory.count_expired("Fetch")
            break
        woken = _watch(request, plan, read, _patience_ms(read, left_ms))
    return _respond(broker, context, plan, read)


# ---------------------------------------------------------------------------- answering

_Topics = dict[TopicId | str, FetchableTopicResponse]


def _respond(broker: FetchPort, context: RequestContext, plan: FetchPlan, read: Read) -> FetchResponse:
    if broker.quotas.bounds_fetches and read.followed is None:
        throttle_ms = broker.quotas.throttle_fetch(context, read.size)
        if throttle_ms:
            return _throttled(broker, plan, throttle_ms)
    topics: _Topics = {}
    for target, watched, data in read.answers:
        _add_answer(plan, topics, target, watched, data)
    return _response(broker, context, plan, read, topics)


def _throttled(broker: FetchPort, plan: FetchPlan, throttle_ms: int) -> FetchResponse:
    """The answer for a consumer that has exceeded its quota: the throttle time, and nothing else (KIP-219). An existing
    session does not change; a session that would begin here begins with the next fetch.
    """
    session_id = NO_SESSION
    if plan.session is not None:
        if plan.is_incremental:
            session_id = plan.session.id
        else:
            broker.fetch_sessions.drop(plan.session)
    return FetchResponse(session_id=session_id, throttle_time_ms=throttle_ms)


def _response(
    broker: FetchPort, context: RequestContext, plan: FetchPlan, read: Read, topics: _Topics
) -> FetchResponse:
    response = FetchResponse(
        session_id=plan.session.id if plan.session else NO_SESSION, responses=list(topics.values())
    )
    if read.followed is not None:
        broker.quotas.exempt()
    if plan.watch is not None and read.followed is not None:
        note_sent(broker, read.size, read.followed, plan.watch)
        if plan.session is None:
            plan.watch.close()
        else:
            plan.watch.ready = {**dict.fromkeys(read.followed.unread), **plan.watch.ready}
    if read.leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in leader_nodes(broker.partitions, context.listener, read.leaders)
        ]
    return response


def _name_leader(broker: FetchPort, target: FetchTarget, data: PartitionData, read: Read) -> None:
    leader = current_leader(broker.partitions, _topic_name(broker, target) or "", target.partition)
    if leader is not None:
        data.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        read.leaders.append(leader[0])


def _add_answer(
    plan: FetchPlan, topics: _Topics, target: FetchTarget, watched: Watched | None, data: PartitionData
) -> None:
    size = len(data.records or b"")
    if isinstance(watched, Partition):
        metrics = watched.metrics
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
            data.diverging_epoch is not None or data.preferred_read_replica >= 0 or is_behind(target, data),
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
