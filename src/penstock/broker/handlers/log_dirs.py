"""DescribeLogDirs and AlterReplicaLogDirs: the partitions in each data directory, and their moves between
directories.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.partitions.moves import Moves
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work
from penstock.core.types import TopicPartition
from penstock.log.directories.data_directory import DataDirectory
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.storage.files import DiskSpace
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class LogDirPort(Protocol):
    """The parts of the broker that the handlers of log directories use."""

    authorizer: Authorizer
    directories: LogDirectories
    moves: Moves
    partitions: Partitions
    slices: Slices


async def describe_log_dirs(
    broker: LogDirPort, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Lists the partitions of each data directory with their sizes, and the copies of partitions that move to the
    directory. From version 3 on the whole request may fail, from version 4 on the answer has the size of the disk. A
    query of the size may hang with its disk, so a thread makes the query.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    by_directory = await broker.slices.run(_list_partitions(broker, request))
    online = [directory for path, directory in broker.directories.directories.items() if path in by_directory]
    spaces = await asyncio.to_thread(_measure, online)
    response = DescribeLogDirsResponse()
    for path, topics in by_directory.items():
        is_offline = path in broker.directories.offline
        response.results.append(_describe(path, topics, None if is_offline else spaces.get(path)))
    return response


async def alter_replica_log_dirs(
    broker: LogDirPort, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Moves replicas of this broker to other data directories of this broker. The answer reports whether a move has
    begun; the move itself goes on, and DescribeLogDirs shows its copy. For a replica that this broker does not have
    yet, the broker remembers the directory and answers REPLICA_NOT_AVAILABLE. Versions 1 and 2 differ in their encoding
    alone.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return await broker.slices.run(_alter(request, lambda _, __: ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    response = await broker.slices.run(_alter(request, broker.moves.request))
    await broker.moves.made()
    return response


def _alter(
    request: AlterReplicaLogDirsRequest, move: Callable[[TopicPartition, str], ErrorCode]
) -> Work[AlterReplicaLogDirsResponse]:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = move(TopicPartition(topic.name, index), directory.path)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
                yield
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _list_partitions(
    broker: LogDirPort, request: DescribeLogDirsRequest
) -> Work[dict[Path, list[DescribeLogDirsTopic]]]:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = set()
        for asked in request.topics:
            wanted.update((asked.topic, index) for index in asked.partitions)
            yield
    by_directory: dict[Path, dict[str, DescribeLogDirsTopic]] = {
        path: {} for path in (*broker.directories.directories, *broker.directories.offline)
    }
    for partition in broker.partitions:
        topic, index = partition.topic_partition
        if wanted is None or (topic, index) in wanted:
            described = by_directory[partition.directory].setdefault(topic, DescribeLogDirsTopic(name=topic))
            described.partitions.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size)
            )
        yield
    for (topic, index), target, size, offset_lag in broker.moves:
        if wanted is None or (topic, index) in wanted:
            described = by_directory[target].setdefault(topic, DescribeLogDirsTopic(name=topic))
            described.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index, partition_size=size, offset_lag=offset_lag, is_future_key=True
                )
            )
        yield
    return {path: list(topics.values()) for path, topics in by_directory.items()}


def _measure(directories: list[DataDirectory]) -> dict[Path, DiskSpace]:
    """Runs in a thread. The result leaves out a disk that does not answer."""
    spaces = {}
    for directory in directories:
        with contextlib.suppress(OSError):
            spaces[directory.path] = directory.files.space(directory.path)
    return spaces


def _describe(path: Path, topics: list[DescribeLogDirsTopic], space: DiskSpace | None) -> DescribeLogDirsResult:
    if space is None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path))
    return DescribeLogDirsResult(
        log_dir=str(path.absolute()), topics=topics, total_bytes=space.total_bytes, usable_bytes=space.usable_bytes
    )
