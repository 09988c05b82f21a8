"""All operations of the proxy, of both versions. Routes, the OpenAPI document and docs/reference/rest-proxy.md are made
from this table.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.http.openapi import Description, document_route, make_document, status_of
from penstock.http.operations import HttpOperation
from penstock.http.routes import Route
from penstock.rest.answers import Error
from penstock.rest.proxy import Proxy
from penstock.rest.v2 import routes as v2
from penstock.rest.v3 import operations as v3_operations
from penstock.rest.v3 import routes as v3

OPERATIONS: Final[tuple[HttpOperation[Any], ...]] = (
    *v2.OPERATIONS,
    *v3_operations.OPERATIONS,
    v3_operations.PRODUCE_RECORD,
    v3_operations.PRODUCE_RECORDS_BATCH,
)
# Every operation may give these answers: for a login, a right, a page, a limit, unreachable brokers.
_ALWAYS: Final = ("400", "401", "403", "404", "406", "408", "413", "415", "422", "429", "500", "503")


def _refusals(operation: HttpOperation[Any]) -> dict[str, str]:
    return dict.fromkeys((*_ALWAYS, *map(status_of, operation.errors)), "Refused.")


DESCRIPTION: Final = Description("Penstock REST proxy", "3.0.0", _refusals, Error)


def routes(proxy: Proxy) -> list[Route]:
    document = make_document(DESCRIPTION, OPERATIONS)
    return [*v2.routes(proxy), *v3.routes(proxy), document_route(document)]
