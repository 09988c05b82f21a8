"""Brokers, topics, partitions and their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.queries.configs import configs_requests, read_settings_of
from penstock.admin.state.configs import ConfigPlace
from penstock.client.brokers import Brokers
from penstock.client.partition_fetch import EARLIEST, LATEST, offset_of
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.describe_configs import DescribeConfigsResponse
from penstock.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from penstock.rest.answers import answer
from penstock.rest.errors import PARTITION_NOT_FOUND, TOPIC_NOT_FOUND, RestError
from penstock.rest.proxy import Proxy
from penstock.rest.v2.bodies import BrokerList, Offsets, PartitionMetadata, Replica, TopicMetadata
from penstock.rest.v2.media import answer_type

_MOST_PARTITION = 2**31 - 1


async def list_brokers(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    brokers = await proxy.clients.of(request)
    metadata = await brokers.metadata([])
    return answer(BrokerList(sorted(each.node_id for each in metadata.brokers)), media_type=media_type)


async def list_topics(proxy: Proxy, request: Request) -> Response:
    """The topics that the caller may describe."""
    media_type = answer_type(request)
    brokers = await proxy.clients.of(request)
    metadata = await brokers.metadata(None)
    names = [each.name for each in metadata.topics if each.name is not None and each.error_code == ErrorCode.NONE]
    return answer(sorted(names), media_type=media_type)


async def get_topic(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    brokers = await proxy.clients.of(request)
    name = request.path_params["topic"]
    topic, configs = await asyncio.gather(_describe(brokers, name), _configs(brokers, name))
    return answer(TopicMetadata(name, configs, _partitions(topic.partitions)), media_type=media_type)


async def list_partitions(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    topic = await _describe(await proxy.clients.of(request), request.path_params["topic"])
    return answer(_partitions(topic.partitions), media_type=media_type)


async def get_partition(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    number = partition_of(request)
    topic = await _describe(await proxy.clients.of(request), request.path_params["topic"])
    for each in _partitions(topic.partitions):
        if each.partition == number:
            return answer(each, media_type=media_type)
    raise RestError(PARTITION_NOT_FOUND, "the topic has no such partition")


async def get_offsets(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    name, number = request.path_params["topic"], partition_of(request)
    brokers = await proxy.clients.of(request)
    topic = await _describe(brokers, name)
    if number not in {each.partition_index for each in topic.partitions}:
        raise RestError(PARTITION_NOT_FOUND, "the topic has no such partition")
    beginning, end = await asyncio.gather(
        offset_of(brokers, name, number, EARLIEST), offset_of(brokers, name, number, LATEST)
    )
    return answer(Offsets(beginning, end), media_type=media_type)


def partition_of(request: Request) -> int:
    """The partition of the path. Raises RestError 40402, also for a text that is no number."""
    text: str = request.path_params["partition"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else _MOST_PARTITION + 1
    if number > _MOST_PARTITION:
        raise RestError(PARTITION_NOT_FOUND, "the topic has no such partition")
    return number


async def _describe(brokers: Brokers, name: str) -> MetadataResponseTopic:
    metadata = await brokers.metadata([name])
    topic: MetadataResponseTopic = metadata.topics[0]
    code = ErrorCode(topic.error_code)
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        raise RestError(TOPIC_NOT_FOUND, "there is no such topic")
    if code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
        raise ApiError(code)
    return topic


def _partitions(partitions: Sequence[MetadataResponsePartition]) -> list[PartitionMetadata]:
    return [
        PartitionMetadata(
            each.partition_index,
            each.leader_id,
            [Replica(node, node == each.leader_id, node in each.isr_nodes) for node in each.replica_nodes],
        )
        for each in sorted(partitions, key=lambda one: one.partition_index)
    ]


async def _configs(brokers: Brokers, name: str) -> dict[str, str | None]:
    """Raises ApiError where the caller may not see them."""
    (message,) = configs_requests([ConfigPlace.topic(name)])
    response: DescribeConfigsResponse = await brokers.ask(message, retry=True)
    (result,) = response.results
    code = ErrorCode(result.error_code)
    if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        raise RestError(TOPIC_NOT_FOUND, "there is no such topic")
    if code is not ErrorCode.NONE:
        raise ApiError(code, result.error_message)
    return {each.name: each.value for each in read_settings_of(result).values()}
