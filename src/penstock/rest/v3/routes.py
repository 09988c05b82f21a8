"""The routes of v3: the table of operations, and the endpoints for records."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.limits import HttpLimits
from penstock.http.routes import Endpoint, Route
from penstock.rest.answers import answer, answering
from penstock.rest.errors import (
    GROUP_NOT_FOUND,
    INVALID_PAYLOAD,
    KAFKA_BAD_REQUEST,
    PARTITION_NOT_FOUND,
    PRODUCE_BATCH,
    TOPIC_PARTITION_NOT_FOUND,
)
from penstock.rest.openapi import Described
from penstock.rest.openapi import Operation as DescribedOperation
from penstock.rest.proxy import Proxy
from penstock.rest.v3.bodies import Batch, NewRecordBody, NewTopic
from penstock.rest.v3.calls import Call, Done
from penstock.rest.v3.handlers.clusters import list_clusters
from penstock.rest.v3.operations import OPERATIONS, Operation
from penstock.rest.v3.places import Place
from penstock.rest.v3.records.endpoints import Records
from penstock.rest.v3.scene import Scene
from penstock.rest.v3.shapes import BatchAnswer, ClusterList, Produced

CLUSTERS = "/v3/clusters"
CLUSTER = f"{CLUSTERS}/{{cluster_id}}"
LIST_CLUSTERS = Operation(
    "GET", "", "listKafkaClusters", "The clusters: the one that the proxy speaks to.", list_clusters, ClusterList
)
# The stream has its own clock and its own limits; the listener's would end it without a word, so they are wider.
_STREAM_MARGIN_S = 60
_NO_LIMIT = 2**62


def routes(proxy: Proxy) -> list[Route]:
    scene = Scene(proxy)
    records = Records(scene)
    longest_s = proxy.settings.number("streaming.connection.max.duration.ms") / 1000
    stream_limits = HttpLimits(max_body_bytes=_NO_LIMIT, body_s=longest_s + _STREAM_MARGIN_S)
    return [
        Route(
            f"{CLUSTER}/topics/{{topic_name}}/records",
            answering(records.produce),
            ("POST",),
            limits=stream_limits,
        ),
        Route(f"{CLUSTER}/topics/{{topic_name}}/records:batch", answering(records.produce_batch), ("POST",)),
        Route(CLUSTERS, _endpoint(scene, LIST_CLUSTERS)),
        *(Route(f"{CLUSTER}{each.path}", _endpoint(scene, each), (each.method,)) for each in OPERATIONS),
    ]


def describe() -> list[Described]:
    """For the OpenAPI document."""
    records = f"{CLUSTER}/topics/{{topic_name}}/records"
    return [
        _described(CLUSTERS, LIST_CLUSTERS),
        *(_described(f"{CLUSTER}{each.path}", each) for each in OPERATIONS),
        Described("POST", records, _PRODUCE),
        Described("POST", f"{records}:batch", _PRODUCE_BATCH),
    ]


_PRODUCE = DescribedOperation(
    "produceRecord",
    "Writes records: one, or as many as stream in. Each has an answer of its own, in their order.",
    NewRecordBody,
    Produced,
    errors=(INVALID_PAYLOAD,),
)
_PRODUCE_BATCH = DescribedOperation(
    "produceRecordsBatch",
    "Writes up to ten records, and tells which of them were written.",
    Batch,
    BatchAnswer,
    207,
    errors=(PRODUCE_BATCH,),
)


def _described(path: str, operation: Operation) -> Described:
    row = DescribedOperation(
        operation.name,
        operation.summary,
        operation.body,
        operation.answer,
        operation.status,
        operation.query,
        _codes(path, operation),
        other_status=200 if operation.body is NewTopic else None,  # where it was only checked
    )
    return Described(operation.method, path, row)


# What a path with one of these names may be answered, beyond what all are.
_CODES = {
    "{consumer_group_id}": GROUP_NOT_FOUND,
    "/topics/{topic_name}": TOPIC_PARTITION_NOT_FOUND,
    "/topics/{topic_name}/partitions/{partition_id}": PARTITION_NOT_FOUND,
}


def _codes(path: str, operation: Operation) -> tuple[int, ...]:
    found = [code for name, code in _CODES.items() if name in path]
    if operation.method != "GET":
        found.append(KAFKA_BAD_REQUEST)
    if operation.body is not None:
        found.append(INVALID_PAYLOAD)
    return tuple(sorted(found))


def _endpoint(scene: Scene, operation: Operation) -> Endpoint:
    async def handle(request: Request) -> Response:
        brokers, cluster_id = await scene.enter(request)
        body = b"" if operation.body is None else await scene.proxy.under_way.read_body(request)
        place = Place.of_cluster(scene.base_of(request), cluster_id)
        call = Call(brokers, cluster_id, place, request.path_params, request.query_params, body)
        return _respond(operation, await operation.handler(call))

    return answering(handle)


def _respond(operation: Operation, result: Any) -> Response:
    done = result if isinstance(result, Done) else Done(result)
    status = done.status or operation.status
    response = Response(status_code=status) if done.body is None else answer(done.body, status)
    if done.location:
        response.headers["location"] = done.location
    return response
