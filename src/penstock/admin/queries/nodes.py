"""What a broker tells of itself: its directories with the replicas in them, the features it knows, its certificate."""

from __future__ import annotations

import datetime
import heapq
import operator
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.admin.queries.slices import by_topic
from penstock.admin.state.brokers import BrokerState, DirectoryState, FeatureLevels, ReplicaFiles
from penstock.admin.state.partitions import ReplicaKey
from penstock.admin.state.parts import describe_silence
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, describe, known_code
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

if TYPE_CHECKING:
    from penstock.admin.look import Look

# Topics that are named for the room that they take in a directory.
_LARGEST = 3


class NodeAnswer(NamedTuple):
    broker: BrokerState
    files: Mapping[ReplicaKey, ReplicaFiles]


async def read_node(look: Look, broker: BrokerState, places: Iterable[TopicPartition] | None = None) -> NodeAnswer:
    """Of all replicas, or of these partitions'. A broker that does not answer says so in its `silence`. One that does
    not let us see its directories tells the rest.
    """
    try:
        link = await look.connect(broker.node_id)
        answer: DescribeLogDirsResponse = await look.ask(broker.node_id, directories_request(places))
    except OSError as error:
        return NodeAnswer(broker._replace(silence=describe_silence(error)), {})
    except ApiError as error:
        return NodeAnswer(broker._replace(silence=str(error)), {})
    return read_own(broker, link.served, link.certificate_until, answer)


def read_own(
    broker: BrokerState,
    served: ApiVersionsResponse,
    certificate_until: datetime.datetime | None,
    answer: DescribeLogDirsResponse,
) -> NodeAnswer:
    left_s = None if certificate_until is None else certificate_until.timestamp() - time.time()
    broker = broker._replace(features=_read_features(served), certificate_left_s=left_s)
    if answer.error_code != ErrorCode.NONE:
        return NodeAnswer(broker, {})
    stored = sum(each.partition_size for row in answer.results for topic in row.topics for each in topic.partitions)
    directories = tuple(map(_read_directory, answer.results))
    return NodeAnswer(
        broker._replace(directories=directories, stored_bytes=stored), read_replica_files(broker.node_id, answer)
    )


def directories_request(places: Iterable[TopicPartition] | None) -> DescribeLogDirsRequest:
    """None: of all replicas."""
    if places is None:
        return DescribeLogDirsRequest(topics=None)
    topics = [DescribableLogDirTopic(topic=name, partitions=rows) for name, rows in by_topic(places).items()]
    return DescribeLogDirsRequest(topics=topics)


def read_replica_files(node_id: int, answer: DescribeLogDirsResponse) -> dict[ReplicaKey, ReplicaFiles]:
    files: dict[ReplicaKey, ReplicaFiles] = {}
    for result in answer.results:
        _add_files(files, node_id, result)
    return files


def _read_directory(row: DescribeLogDirsResult) -> DirectoryState:
    sizes = [(topic.name, sum(each.partition_size for each in topic.partitions)) for topic in row.topics]
    return DirectoryState(
        row.log_dir,
        "" if row.error_code == ErrorCode.NONE else describe(known_code(row.error_code)),
        row.total_bytes if row.total_bytes >= 0 else None,
        row.usable_bytes if row.usable_bytes >= 0 else None,
        tuple(heapq.nlargest(_LARGEST, sizes, key=operator.itemgetter(1))),
    )


def _add_files(files: dict[ReplicaKey, ReplicaFiles], node_id: int, row: DescribeLogDirsResult) -> None:
    for topic in row.topics:
        for each in topic.partitions:
            key = ReplicaKey(topic.name, each.partition_index, node_id)
            known = files.get(key, ReplicaFiles(None, 0))
            if each.is_future_key:
                files[key] = known._replace(future_directory=row.log_dir, future_size=each.partition_size)
            else:
                files[key] = known._replace(directory=row.log_dir, size=each.partition_size)


def _read_features(served: ApiVersionsResponse) -> tuple[FeatureLevels, ...]:
    finalized = {feature.name: feature.max_version_level for feature in served.finalized_features}
    return tuple(
        FeatureLevels(each.name, each.min_version, each.max_version, finalized.get(each.name))
        for each in sorted(served.supported_features, key=lambda feature: feature.name)
    )
