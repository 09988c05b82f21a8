"""The OpenAPI document is true of v3: requests made from it get the answers that it tells of, and never a 5xx."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case as AnyCase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

import penstock
from penstock.http.openapi import make_document
from penstock.rest.table import DESCRIPTION, OPERATIONS
from tests.clients.rest_v3.talking import V3, run_proxy

Case: TypeAlias = AnyCase[Any]

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]
DOCUMENT = make_document(DESCRIPTION, [each for each in OPERATIONS if each.path.startswith("/v3/")])
DESCRIBED: list[Any] = [
    cast("Any", found).ok() for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
]
# What is made from the document alone hardly ever names something that there is.
NAMES = {
    "topic_name": st.sampled_from(["here", "gone", "no such", "a/b"]),
    "consumer_group_id": st.sampled_from(["group", "a/b"]),
    "broker_id": st.sampled_from(["1", "2", "-"]),
    "partition_id": st.sampled_from(["0", "7", "x"]),
    "name": st.sampled_from(["retention.ms", "cleanup.policy", "log.retention.ms", "no.such"]),
}
_SMALL_TOPICS = st.integers(-2, 3)


@pytest.fixture(scope="module")
def own() -> Iterator[V3]:
    """With a broker of its own: what is made here stays."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    with penstock.Broker(config=config) as broker, run_proxy(broker.bootstrap_servers) as proxy:
        assert proxy.ask("POST", "/topics", {"topic_name": "here"}).status_code == 201
        yield proxy


def _make_plausible(case: Case, cluster_id: str, data: st.DataObject) -> None:
    parameters: dict[str, Any] = case.path_parameters
    if "cluster_id" in parameters:
        parameters["cluster_id"] = cluster_id
    for name, values in NAMES.items():
        if name in parameters:
            parameters[name] = data.draw(values).replace("/", "%2F")
    if isinstance(case.body, dict):
        for name in ("partitions_count", "replication_factor"):
            if name in case.body:  # a broker would make a million partitions, given the time
                case.body[name] = data.draw(_SMALL_TOPICS)


def _run(proxy: V3, examples: int, mode: GenerationMode = GenerationMode.POSITIVE) -> None:
    for operation in DESCRIBED:

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=examples < 100,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode), data=st.data())
        def ask(case: Case, data: st.DataObject) -> None:
            _make_plausible(case, proxy.cluster_id, data)
            answer = case.call(base_url=proxy.base, session=proxy.session, timeout=30)
            case.validate_response(answer, checks=CHECKS if mode is GenerationMode.POSITIVE else CHECKS[:1])

        with contextlib.suppress(Unsatisfiable):  # nothing can be wrong with a request that takes nothing
            ask()


def test_fifty_operations_are_described() -> None:
    assert len(DESCRIBED) == 50


def test_answers_are_as_described_when_requests_are_made_from_the_document(own: V3) -> None:
    _run(own, 2)


@pytest.mark.soak
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_answers_are_as_described_when_thousands_of_requests_are_made(own: V3, mode: GenerationMode) -> None:
    _run(own, 60, mode)
