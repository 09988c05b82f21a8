"""DescribeLogDirs: which partitions lie on which disk, and how large they are."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext
from penstock.broker.slices import Work
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> Work[DescribeLogDirsResponse]:
    """Lists the partitions in each data directory and their sizes. From version 3 on the whole request may fail, from
    version 4 on the answer has the size of the disk.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
            described.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=partition.size))
        yield
    return DescribeLogDirsResponse(
        results=[_describe(broker, path, list(topics.values())) for path, topics in by_directory.items()]
    )


def _describe(broker: Broker, path: Path, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    if path in broker.directories.offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path))
    answer = DescribeLogDirsResult(log_dir=str(path.absolute()), topics=topics)
    try:
        usage = os.statvfs(path)
    except OSError:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    answer.total_bytes = usage.f_blocks * usage.f_frsize
    answer.usable_bytes = usage.f_bavail * usage.f_frsize
    return answer
