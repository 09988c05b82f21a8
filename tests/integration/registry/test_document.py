"""The OpenAPI document is true: requests made from it get the answers that it tells of, and never a 5xx."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any, TypeAlias, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case as AnyCase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.http.openapi import make_document
from penstock.registry.api.table import OPERATIONS, describe
from tests.integration.registry.serving import PATIENCE_S, Served

Case: TypeAlias = AnyCase[Any]

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
DOCUMENT = schemathesis.openapi.from_dict(make_document(describe("1"), OPERATIONS))
DESCRIBED: list[Any] = [cast("Any", found).ok() for found in DOCUMENT.get_all_operations()]

# What is made from the document alone is hardly ever a schema, or a subject that there is.
SUBJECTS = st.sampled_from(["a", "b/c", ":.c:d", ":.c:", "e"])
VERSIONS = st.sampled_from(["1", "2", "latest", "-1", "0"])
SCHEMAS = st.sampled_from(
    [
        ("AVRO", '"string"'),
        ("AVRO", '{"type": "record", "name": "R", "fields": []}'),
        ("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "f", "type": ["null", "R"], "default": null}]}'),
        ("JSON", '{"type": "object", "properties": {"p": {"type": "integer"}}}'),
        ("JSON", "true"),
        ("PROTOBUF", 'syntax = "proto3"; message M { int32 f = 1; }'),
        ("PROTOBUF", 'syntax = "proto3"; message M { string f = 1; N n = 2; message N {} }'),
    ]
)


def make_plausible(case: Case, data: st.DataObject) -> None:
    parameters: dict[str, Any] = case.path_parameters
    if "subject" in parameters and data.draw(st.booleans()):
        parameters["subject"] = data.draw(SUBJECTS).replace("/", "%2F")
    if "version" in parameters and data.draw(st.booleans()):
        parameters["version"] = data.draw(VERSIONS)
    body = case.body
    if isinstance(body, dict) and "/versions" in case.path and data.draw(st.booleans()):
        kind, text = data.draw(SCHEMAS)
        case.body = {"schemaType": kind, "schema": text, **{k: body[k] for k in ("metadata", "ruleSet") if k in body}}


def checks_of(operation: Any, mode: GenerationMode) -> list[Any]:
    """The bare text of a schema has the type of JSON, as from Confluent's registry, also where it is none. What was
    made to be refused may be refused in any way that has no 5xx.
    """
    checks = CHECKS if mode is GenerationMode.POSITIVE else CHECKS[:3]
    return [
        each for each in checks if not operation.path.endswith("/schema") or each is not response_schema_conformance
    ]


def run(registry: Served, mode: GenerationMode, examples: int) -> None:
    for operation in DESCRIBED:
        checks = checks_of(operation, mode)

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=examples < 100,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode), data=st.data())
        def ask(case: Case, data: st.DataObject) -> None:
            if mode is GenerationMode.POSITIVE:
                make_plausible(case, data)
            answer = case.call(base_url=registry.url, session=registry.session, timeout=PATIENCE_S)
            case.validate_response(answer, checks=checks)  # noqa: B023

        # An operation without parameters cannot be asked wrongly.
        with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
            ask()


def test_answers_are_as_described_when_requests_are_made_from_the_document(registry: Served) -> None:
    run(registry, GenerationMode.POSITIVE, 6)


@pytest.mark.soak
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_answers_are_as_described_when_thousands_of_requests_are_made(registry: Served, mode: GenerationMode) -> None:
    run(registry, mode, 300)
