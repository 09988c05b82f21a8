"""The table of version 2: its routes, and its part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.routes import Route
from penstock.rest.answers import JSON, Handler, answering
from penstock.rest.openapi import Described, Operation, Parameter
from penstock.rest.proxy import Proxy
from penstock.rest.v2 import bodies, consumers, produce, topics
from penstock.rest.v2.media import EMBEDDED, KAFKA_V2, type_of

_INSTANCE: Final = "/consumers/{group}/instances/{instance}"
_GENERAL: Final = (KAFKA_V2, JSON)
_FORMATS: Final = tuple(map(type_of, EMBEDDED))
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_READ: Final = (
    Parameter("timeout", "How long to wait for records, in ms; at most 60,000.", _NUMBER),
    Parameter("max_bytes", "The most bytes of keys and values in the answer.", _NUMBER),
)

Serve = Callable[[Proxy, Request], Awaitable[Response]]


class Row(NamedTuple):
    method: str
    path: str
    serve: Serve
    operation: Operation


def _operation(name: str, words: str, *errors: int, answer: object = None, body: object = None) -> Operation:
    """Without an answer: 204."""
    status = 200 if answer is not None else 204
    return Operation(name, words, body, answer, status, (), errors, _GENERAL, _GENERAL)


_PRODUCE: Final = Operation(
    "",
    "",
    bodies.ProduceBody,
    bodies.ProduceResponse,
    200,
    (),
    (40401, 40402, 42201, 42202, 42203, 42205, 42206),
    _FORMATS,
    _GENERAL,
)

METADATA: Final = (
    Row(
        "GET",
        "/brokers",
        topics.list_brokers,
        _operation("listBrokers", "The ids of the brokers.", answer=bodies.BrokerList),
    ),
    Row("GET", "/topics", topics.list_topics, _operation("listTopics", "The names of the topics.", answer=list[str])),
    Row(
        "GET",
        "/topics/{topic}",
        topics.get_topic,
        _operation("getTopic", "A topic with its settings and partitions.", 40401, answer=bodies.TopicMetadata),
    ),
    Row(
        "GET",
        "/topics/{topic}/partitions",
        topics.list_partitions,
        _operation("listPartitions", "A topic's partitions.", 40401, answer=list[bodies.PartitionMetadata]),
    ),
    Row(
        "GET",
        "/topics/{topic}/partitions/{partition}",
        topics.get_partition,
        _operation("getPartition", "One partition.", 40401, 40402, answer=bodies.PartitionMetadata),
    ),
    Row(
        "GET",
        "/topics/{topic}/partitions/{partition}/offsets",
        topics.get_offsets,
        _operation("getOffsets", "Where a partition begins and ends.", 40401, 40402, answer=bodies.Offsets),
    ),
)
RECORDS: Final = (
    Row(
        "POST",
        "/topics/{topic}",
        produce.produce_to_topic,
        _PRODUCE._replace(name="produceToTopic", words="Writes records: one batch for each partition."),
    ),
    Row(
        "POST",
        "/topics/{topic}/partitions/{partition}",
        produce.produce_to_partition,
        _PRODUCE._replace(name="produceToPartition", words="Writes records to one partition."),
    ),
)
CONSUMERS: Final = (
    Row(
        "POST",
        "/consumers/{group}",
        consumers.create_instance,
        _operation(
            "createInstance",
            "Makes a consumer instance.",
            307,
            40902,
            42204,
            body=bodies.CreateInstance,
            answer=bodies.CreatedInstance,
        )._replace(is_body_required=False),
    ),
    Row(
        "DELETE",
        _INSTANCE,
        consumers.delete_instance,
        _operation("deleteInstance", "Leaves the group and forgets the instance.", 307, 40403),
    ),
    Row(
        "POST",
        f"{_INSTANCE}/subscription",
        consumers.subscribe,
        _operation(
            "subscribe", "Subscribes to topics, or to an expression.", 307, 40403, 40903, body=bodies.SubscribeRequest
        ),
    ),
    Row(
        "GET",
        f"{_INSTANCE}/subscription",
        consumers.get_subscription,
        _operation("getSubscription", "What is subscribed to.", 307, 40403, answer=bodies.SubscribedTopics),
    ),
    Row(
        "DELETE",
        f"{_INSTANCE}/subscription",
        consumers.unsubscribe,
        _operation("unsubscribe", "Subscribes to nothing.", 307, 40403),
    ),
    Row(
        "POST",
        f"{_INSTANCE}/assignments",
        consumers.assign,
        _operation(
            "assign", "Reads these partitions, without the group.", 307, 40403, 40903, body=bodies.PartitionList
        ),
    ),
    Row(
        "GET",
        f"{_INSTANCE}/assignments",
        consumers.get_assignments,
        _operation("getAssignments", "The partitions that are read.", 307, 40403, answer=bodies.PartitionList),
    ),
    Row(
        "GET",
        f"{_INSTANCE}/records",
        consumers.get_records,
        Operation(
            "getRecords",
            "The next records.",
            None,
            list[bodies.ConsumedRecord],
            200,
            _READ,
            (307, 40403, 40601, 40903),
            answer_types=_FORMATS,
        ),
    ),
    Row(
        "POST",
        f"{_INSTANCE}/offsets",
        consumers.commit_offsets,
        _operation("commit", "Commits offsets of records that were read.", 307, 40403, body=bodies.OffsetList)._replace(
            status=200, is_body_required=False
        ),
    ),
    Row(
        "GET",
        f"{_INSTANCE}/offsets",
        consumers.get_committed,
        _operation("getCommitted", "What the group has committed.", 307, 40403, answer=bodies.OffsetList),
    ),
    Row(
        "POST",
        f"{_INSTANCE}/positions",
        consumers.seek,
        _operation("seek", "Reads on from these offsets.", 307, 40403, 40903, body=bodies.OffsetList),
    ),
    Row(
        "POST",
        f"{_INSTANCE}/positions/beginning",
        consumers.seek_to_beginning,
        _operation("seekToBeginning", "Reads on from the beginning.", 307, 40403, 40903, body=bodies.PartitionList),
    ),
    Row(
        "POST",
        f"{_INSTANCE}/positions/end",
        consumers.seek_to_end,
        _operation("seekToEnd", "Reads on from the end.", 307, 40403, 40903, body=bodies.PartitionList),
    ),
)
TABLE: Final = (*METADATA, *RECORDS, *CONSUMERS)
DESCRIBED: Final = tuple(Described(each.method, each.path, each.operation) for each in TABLE)


def routes(proxy: Proxy) -> list[Route]:
    return [Route(each.path, answering(_bound(proxy, each), KAFKA_V2), (each.method,)) for each in TABLE]


def _bound(proxy: Proxy, row: Row) -> Handler:
    serve = row.serve
    if not row.path.startswith(_INSTANCE):
        return lambda request: serve(proxy, request)

    async def here_or_elsewhere(request: Request) -> Response:
        return consumers.elsewhere(proxy, request) or await serve(proxy, request)

    return here_or_elsewhere
