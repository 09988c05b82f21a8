"""A whole broker started on a damaged directory, and what its answers say. For `damage.rounds`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from penstock.client.connection import Connection
from penstock.cluster.store.interface import StoreError
from penstock.core.types import TopicPartition
from penstock.embedded import AsyncBroker
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.log.formats import names
from penstock.protocol.batch import is_crc_valid
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from proof.damage.damage import (
    BROKER_CONFIG,
    COMMITTED,
    GROUP,
    PARTITIONS,
    Damage,
    OriginalLog,
    Template,
    is_store,
    whole_batches,
)

_PATIENCE_S = 20.0
_LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


async def check_broker(template: Template, directory: Path, done: Damage, findings: list[str]) -> str:
    """How it went in a word or two; whatever is wrong is added to `findings`."""
    broker = AsyncBroker(directory, config=BROKER_CONFIG)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await broker.start()
    except (OSError, LogDirectoryError, StoreError) as error:
        if not is_store(done.path) and done.suffix != names.META_PROPERTIES and done.kind != "a directory":
            findings.append(f"no start: {error}")
        return "broker refused to start"
    try:
        async with asyncio.timeout(_PATIENCE_S), await Connection.open("127.0.0.1", broker.port) as connection:
            for topic_partition, original in template.logs.items():
                findings += [
                    f"{topic_partition}: {text}"
                    for text in await _check_partition(connection, topic_partition, original, done)
                ]
            findings += await _check_commits(connection, done)
    finally:
        async with asyncio.timeout(_PATIENCE_S):
            await broker.stop()
    return "broker served"


async def _check_partition(
    connection: Connection, topic_partition: TopicPartition, original: OriginalLog, done: Damage
) -> list[str]:
    is_damaged = topic_partition in done.touched
    wanted = ListOffsetsPartition(partition_index=topic_partition.partition, timestamp=-2)
    topic = ListOffsetsTopic(name=topic_partition.topic, partitions=[wanted])
    answer = await connection.request(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5)
    start = answer.topics[0].partitions[0]
    if start.error_code:
        return [] if is_damaged or is_store(done.path) else [f"refused with error {start.error_code}"]
    findings, served = [], set()
    offset = start.offset
    while True:
        partition = await _fetch(connection, topic_partition, offset)
        if partition.error_code:
            if not is_damaged and not is_store(done.path):
                findings.append(f"fetching at {offset} fails with error {partition.error_code}")
            return findings
        after = offset
        for header, batch in whole_batches(bytes(partition.records or b"")):
            expected = original.batches.get(header.base_offset)
            is_right = expected is not None and expected[16:] == batch[16:] and is_crc_valid(batch, 0, header)
            is_shown = is_damaged and done.suffix == names.LOG  # offsets have no checksum, see damage.rounds
            if not is_right and not (is_shown and is_crc_valid(batch, 0, header)):
                findings.append(f"the batch at {header.base_offset} is not the one that was there")
            served.add(header.base_offset)
            after = header.next_offset
        if after == offset:
            break
        offset = after
    missing = {base for base in original.batches if base >= max(start.offset, original.log_start_offset)} - served
    is_whole = not (is_damaged and done.suffix == names.LOG) and not is_store(done.path)
    if missing and is_whole and done.suffix != names.LOG_START_OFFSETS:
        findings.append(f"{len(missing)} batches are gone, the first at {min(missing)}")
    return findings


async def _fetch(connection: Connection, topic_partition: TopicPartition, offset: int) -> Any:
    partition = FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=1_500)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic_partition.topic, partitions=[partition])],
    )
    answer = await connection.request(request, 11)
    return answer.responses[0].partitions[0]


async def _check_commits(connection: Connection, done: Damage) -> list[str]:
    """The last commit, or the one before where the damage took it; never a number that nobody committed."""
    topic = OffsetFetchRequestTopic(name="plain", partition_indexes=list(range(PARTITIONS)))
    while True:
        answer = await connection.request(OffsetFetchRequest(group_id=GROUP, topics=[topic]), 5)
        if answer.error_code not in _LOADING:
            break
        if is_store(done.path) or "__consumer_offsets-0" in done.path:
            return []  # without its topic, or with a damaged one, a group is not served
        await asyncio.sleep(0.005)
    committed = {partition.committed_offset for partition in answer.topics[0].partitions} if answer.topics else set()
    if "__consumer_offsets-0" in done.path or is_store(done.path):
        return [] if committed <= {COMMITTED, COMMITTED - 1, -1} else [f"offsets {committed} were never committed"]
    return [] if committed == {COMMITTED} else [f"the group's offsets are {committed}, not {COMMITTED}"]
