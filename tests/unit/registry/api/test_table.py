"""The table of operations, its routes, and the document that describes them."""

from __future__ import annotations

import json
import re

from penstock.http.openapi import make_document
from penstock.http.routing import Routing
from penstock.registry.api.routes import CONTEXT_PREFIX, routes
from penstock.registry.api.shapes import PATH_PARAMETERS, QUERY_PARAMETERS, SHAPES
from penstock.registry.api.table import OPERATIONS, describe, is_change, is_in_context
from penstock.registry.log import MemoryLog
from penstock.registry.service import SchemaService
from penstock.registry.state import State


def test_every_operation_has_one_route_and_one_below_a_context_when_it_says_so() -> None:
    state = State()
    service = SchemaService(state, MemoryLog(state.replay))
    table = routes(service)
    Routing(table)  # no row stands there twice
    served = {(route.methods[0], route.path) for route in table}
    wanted = {(each.method, each.path) for each in OPERATIONS}
    wanted |= {(each.method, CONTEXT_PREFIX + each.path) for each in OPERATIONS if is_in_context(each)}
    assert served == wanted | {("GET", "/openapi.json")}


def test_document_describes_every_operation_when_it_is_made() -> None:
    document = json.loads(json.dumps(make_document(describe("1"), OPERATIONS)))
    described = {(method.upper(), path) for path, rows in document["paths"].items() for method in rows}
    assert described == {(each.method, each.path) for each in OPERATIONS}
    names = [row["operationId"] for rows in document["paths"].values() for row in rows.values()]
    assert len(names) == len(set(names))


def test_all_words_are_used_and_known_when_the_table_names_them() -> None:
    named = {name for each in OPERATIONS for name in re.findall(r"\{(\w+)\}", each.path)}
    assert named == PATH_PARAMETERS.keys()
    assert {named.name for each in OPERATIONS for named in each.query} == QUERY_PARAMETERS.keys()
    assert {each.answer for each in OPERATIONS} | {each.body for each in OPERATIONS} <= {None, *SHAPES}


def test_changes_need_a_right_when_somebody_makes_them() -> None:
    refused = {"CreateAssociations", "ChangeAssociations", "DeleteAssociations"}
    only_read = {"LookUpSchema", "CheckAgainstVersion", "CheckAgainstSubject"}
    assert {each.name for each in OPERATIONS if each.method != "GET" and not is_change(each)} == refused | only_read
    assert [each.name for each in OPERATIONS if each.method == "GET" and is_change(each)] == []
