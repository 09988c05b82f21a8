"""The OpenAPI document, and requests made from it: whatever fits the document is answered, and never with 5xx."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error

from penstock.http.openapi import make_document
from penstock.rest.table import DESCRIPTION
from penstock.rest.table import OPERATIONS as ALL_OPERATIONS
from penstock.rest.v2.routes import OPERATIONS
from tests.clients.rest.talking import Rest

DOCUMENT = make_document(DESCRIPTION, ALL_OPERATIONS)
# Of version 2 alone: the other version has its own test.
schema = schemathesis.openapi.from_dict(make_document(DESCRIPTION, OPERATIONS))
QUIET = settings(
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def made(examples: int) -> settings:
    return settings(max_examples=examples, parent=QUIET)


@schema.parametrize()
@made(2)
@pytest.mark.usefixtures("rest")
def test_no_request_fails_when_it_is_made_from_the_document(case: Any, rest: Rest) -> None:
    response = case.call(base_url=rest.url, timeout=60)
    case.validate_response(response, checks=[not_a_server_error])


@pytest.mark.soak
@schema.parametrize()
@made(300)
@pytest.mark.usefixtures("rest")
def test_no_request_fails_when_hundreds_are_made_from_the_document(case: Any, rest: Rest) -> None:
    response = case.call(base_url=rest.url, timeout=60)
    case.validate_response(response, checks=[not_a_server_error])


def test_document_is_served_when_asked_for(rest: Rest) -> None:
    assert rest.get("/openapi.json").json == DOCUMENT


def test_every_route_is_in_the_document_when_it_is_in_the_table() -> None:
    for row in ALL_OPERATIONS:
        assert DOCUMENT["paths"][row.path][row.method.lower()]["operationId"] == row.name
