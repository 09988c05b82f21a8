"""The table of version 2's operations, and its routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.operations import JSON, HttpOperation, MediaTypes, Parameter, make_routes
from penstock.http.routes import Endpoint, Route
from penstock.rest.answers import answering
from penstock.rest.proxy import Proxy
from penstock.rest.v2 import bodies, consumers, produce, topics
from penstock.rest.v2.media import EMBEDDED, KAFKA_V2, type_of

Serve = Callable[[Proxy, Request], Awaitable[Response]]

_INSTANCE: Final = "/consumers/{group}/instances/{instance}"
_FORMATS: Final = tuple(map(type_of, EMBEDDED))
_GENERAL: Final = MediaTypes((KAFKA_V2, JSON), (KAFKA_V2, JSON))
_PRODUCED: Final = MediaTypes(_FORMATS, _GENERAL.answer)
_READ: Final = MediaTypes(answer=_FORMATS)
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_PRODUCE_ERRORS: Final = (40401, 40402, 42201, 42202, 42203, 42205, 42206)

OPERATIONS: Final[tuple[HttpOperation[Serve], ...]] = (
    # metadata
    HttpOperation(
        "GET", "/brokers", "listBrokers", "The ids of the brokers.", topics.list_brokers, bodies.BrokerList,
        media=_GENERAL,
    ),
    HttpOperation(
        "GET", "/topics", "listTopics", "The names of the topics.", topics.list_topics, list[str], media=_GENERAL
    ),
    HttpOperation(
        "GET", "/topics/{topic}", "getTopic", "A topic with its settings and partitions.", topics.get_topic,
        bodies.TopicMetadata, errors=(40401,), media=_GENERAL,
    ),
    HttpOperation(
        "GET", "/topics/{topic}/partitions", "listPartitions", "A topic's partitions.", topics.list_partitions,
        list[bodies.PartitionMetadata], errors=(40401,), media=_GENERAL,
    ),
    HttpOperation(
        "GET", "/topics/{topic}/partitions/{partition}", "getPartition", "One partition.", topics.get_partition,
        bodies.PartitionMetadata, errors=(40401, 40402), media=_GENERAL,
    ),
    HttpOperation(
        "GET", "/topics/{topic}/partitions/{partition}/offsets", "getOffsets", "Where a partition begins and ends.",
        topics.get_offsets, bodies.Offsets, errors=(40401, 40402), media=_GENERAL,
    ),
    # records
    HttpOperation(
        "POST", "/topics/{topic}", "produceToTopic", "Writes records: one batch for each partition.",
        produce.produce_to_topic, bodies.ProduceResponse, bodies.ProduceBody, errors=_PRODUCE_ERRORS, media=_PRODUCED,
    ),
    HttpOperation(
        "POST", "/topics/{topic}/partitions/{partition}", "produceToPartition", "Writes records to one partition.",
        produce.produce_to_partition, bodies.ProduceResponse, bodies.ProduceBody, errors=_PRODUCE_ERRORS,
        media=_PRODUCED,
    ),
    # consumers
    HttpOperation(
        "POST", "/consumers/{group}", "createInstance", "Makes a consumer instance.", consumers.create_instance,
        bodies.CreatedInstance, bodies.CreateInstance, errors=(307, 40902, 42204), media=_GENERAL,
        is_body_required=False,
    ),
    HttpOperation(
        "DELETE", _INSTANCE, "deleteInstance", "Leaves the group and forgets the instance.", consumers.delete_instance,
        errors=(307, 40403), media=_GENERAL,
    ),
    HttpOperation(
        "POST", f"{_INSTANCE}/subscription", "subscribe", "Subscribes to topics, or to an expression.",
        consumers.subscribe, body=bodies.SubscribeRequest, errors=(307, 40403, 40903), media=_GENERAL,
    ),
    HttpOperation(
        "GET", f"{_INSTANCE}/subscription", "getSubscription", "What is subscribed to.", consumers.get_subscription,
        bodies.SubscribedTopics, errors=(307, 40403), media=_GENERAL,
    ),
    HttpOperation(
        "DELETE", f"{_INSTANCE}/subscription", "unsubscribe", "Subscribes to nothing.", consumers.unsubscribe,
        errors=(307, 40403), media=_GENERAL,
    ),
    HttpOperation(
        "POST", f"{_INSTANCE}/assignments", "assign", "Reads these partitions, without the group.", consumers.assign,
        body=bodies.PartitionList, errors=(307, 40403, 40903), media=_GENERAL,
    ),
    HttpOperation(
        "GET", f"{_INSTANCE}/assignments", "getAssignments", "The partitions that are read.",
        consumers.get_assignments, bodies.PartitionList, errors=(307, 40403), media=_GENERAL,
    ),
    HttpOperation(
        "GET", f"{_INSTANCE}/records", "getRecords", "The next records.", consumers.get_records,
        list[bodies.ConsumedRecord], errors=(307, 40403, 40601, 40903), media=_READ,
        query=(
            Parameter("timeout", "How long to wait for records, in ms; at most 60,000.", _NUMBER),
            Parameter("max_bytes", "The most bytes of keys and values in the answer.", _NUMBER),
        ),
    ),
    HttpOperation(
        "POST", f"{_INSTANCE}/offsets", "commit", "Commits offsets of records that were read.",
        consumers.commit_offsets, body=bodies.OffsetList, errors=(307, 40403), statuses=(200,), media=_GENERAL,
        is_body_required=False,
    ),
    HttpOperation(
        "GET", f"{_INSTANCE}/offsets", "getCommitted", "What the group has committed.", consumers.get_committed,
        bodies.OffsetList, errors=(307, 40403), media=_GENERAL,
    ),
    HttpOperation(
        "POST", f"{_INSTANCE}/positions", "seek", "Reads on from these offsets.", consumers.seek,
        body=bodies.OffsetList, errors=(307, 40403, 40903), media=_GENERAL,
    ),
    HttpOperation(
        "POST", f"{_INSTANCE}/positions/beginning", "seekToBeginning", "Reads on from the beginning.",
        consumers.seek_to_beginning, body=bodies.PartitionList, errors=(307, 40403, 40903), media=_GENERAL,
    ),
    HttpOperation(
        "POST", f"{_INSTANCE}/positions/end", "seekToEnd", "Reads on from the end.", consumers.seek_to_end,
        body=bodies.PartitionList, errors=(307, 40403, 40903), media=_GENERAL,
    ),
)  # fmt: skip


def routes(proxy: Proxy) -> list[Route]:
    def bind(operation: HttpOperation[Serve]) -> Endpoint:
        serve = partial(operation.handler, proxy)

        async def here_or_elsewhere(request: Request) -> Response:
            return consumers.elsewhere(proxy, request) or await serve(request)

        return answering(here_or_elsewhere if operation.path.startswith(_INSTANCE) else serve, KAFKA_V2)

    return make_routes(OPERATIONS, bind)
