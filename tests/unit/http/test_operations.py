"""Routes and the OpenAPI document that follow from a table of operations."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.http.limits import HttpLimits
from penstock.http.openapi import DOCUMENT_PATH, Description, document_route, make_document
from penstock.http.operations import JSON, HttpOperation, MediaTypes, Parameter, make_routes
from penstock.http.routes import Endpoint
from tests.unit.http.talking import hello

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

REFUSED = {"400": "Not readable.", "5XX": "Not now."}
NAMED = Description("Boxes", "1", lambda _: REFUSED, shapes={"Box": {"type": "object"}, "Error": {}})


class Box(msgspec.Struct):
    size: int


def row(**more: Any) -> HttpOperation[str]:
    return HttpOperation("GET", "/boxes/{box}", "getBox", "One box.", "handler", **more)


def describe(operation: HttpOperation[str], service: Description = NAMED) -> dict[str, Any]:
    document = json.loads(json.dumps(make_document(service, [operation])))
    described: dict[str, Any] = document["paths"][operation.path][operation.method.lower()]
    return described


def test_routes_are_bound_row_by_row_when_they_are_made() -> None:
    bound = []

    def bind(operation: HttpOperation[str]) -> Endpoint:
        bound.append(operation.handler)
        return hello

    limits = HttpLimits(max_body_bytes=7)
    (route,) = make_routes([row(is_public=True)], bind, limits)
    assert bound == ["handler"]
    assert route == ("/boxes/{box}", hello, ("GET",), True, limits)


@pytest.mark.parametrize(
    ("more", "statuses"),
    [({}, (204,)), ({"answer": "Box"}, (200,)), ({"answer": "Box", "statuses": (201, 200)}, (201, 200))],
)
def test_success_has_its_usual_status_when_the_row_names_none(more: dict[str, Any], statuses: tuple[int, ...]) -> None:
    operation = row(**more)
    assert operation.success == statuses
    done = [
        status for status, response in describe(operation)["responses"].items() if response["description"] == "Done."
    ]
    assert done == list(map(str, statuses))


def test_codes_stand_behind_the_words_of_their_status_when_the_row_names_them() -> None:
    responses = describe(row(errors=(409, 40001, 40002)))["responses"]
    words = {status: response["description"] for status, response in responses.items()}
    assert words == {
        "204": "Done.",
        "400": "Not readable. Codes: 40001, 40002.",
        "409": "Codes: 409.",
        "5XX": "Not now.",
    }


def test_refusals_are_in_json_too_when_answers_have_another_type() -> None:
    described = describe(row(answer="Box", body="Box", media=MediaTypes(("a/b",), ("a/c",)), is_body_required=False))
    box, error = ({"schema": {"$ref": f"#/components/schemas/{name}"}} for name in ("Box", "Error"))
    assert described["requestBody"] == {"required": False, "content": {"a/b": box}}
    assert described["responses"]["200"]["content"] == {"a/c": box}
    assert described["responses"]["400"]["content"] == {"a/c": error, JSON: error}


def test_types_become_shapes_of_the_document_when_rows_name_them() -> None:
    service = Description("Boxes", "1", lambda _: {}, error=Box, words="All of them.", openapi="3.0.3")
    document = make_document(service, [row(answer=list[Box])])
    assert list(document["components"]["schemas"]) == ["Box"]
    content = document["paths"]["/boxes/{box}"]["get"]["responses"]["200"]["content"]
    assert content == {JSON: {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Box"}}}}
    assert document["info"] == {"title": "Boxes", "version": "1", "description": "All of them."}
    assert document["openapi"] == "3.0.3"


def test_parameters_say_what_is_known_of_them() -> None:
    number = {"type": "integer"}
    limit = Parameter("limit", "At most so many.", number)
    operation = row(query=(limit, limit._replace(name="by", is_required=True)))
    path, *query = describe(operation)["parameters"]
    assert path == {"name": "box", "in": "path", "schema": {"type": "string", "minLength": 1}, "required": True}
    assert query == [
        {"name": "limit", "in": "query", "schema": number, "description": "At most so many."},
        {"name": "by", "in": "query", "schema": number, "description": "At most so many.", "required": True},
    ]
    known = NAMED._replace(path_parameters={"box": Parameter("box", "A box.", number, 7)})
    assert describe(row(), known)["parameters"] == [
        {"name": "box", "in": "path", "schema": number, "description": "A box.", "required": True, "example": 7}
    ]


def test_right_chapter_and_openness_are_told_when_the_row_has_them() -> None:
    described = describe(row(right="READ", tag="boxes", is_public=True))
    assert (described["x-right"], described["tags"], described["security"]) == ("READ", ["boxes"], [])
    assert {"x-right", "tags", "security", "requestBody"} & describe(row()).keys() == set()


def test_document_is_served_as_json_when_it_is_asked_for() -> None:
    from starlette.requests import Request

    route = document_route(make_document(NAMED, [row()]))
    request = Request({"type": "http", "method": "GET", "path": DOCUMENT_PATH, "headers": []})
    response = asyncio.run(_ask(route.endpoint, request))
    assert (route.path, response.headers["content-type"]) == (DOCUMENT_PATH, JSON)
    assert json.loads(bytes(response.body))["info"]["title"] == "Boxes"


async def _ask(endpoint: Endpoint, request: Request) -> Response:
    return await endpoint(request)
