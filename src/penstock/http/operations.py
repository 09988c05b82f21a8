"""A table of operations: one row for each operation of a service over HTTP. This module makes the service's routes from
the table, `openapi` its OpenAPI document, and `tools` its page of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.http.limits import HttpLimits
from penstock.http.routes import Endpoint, Route

JSON: Final = "application/json"
Shape = dict[str, Any]  # JSON Schema

# Each service has handlers of its own form: some take a request, others the values that the service has read from the
# request.
Handler_co = TypeVar("Handler_co", covariant=True)


class Parameter(NamedTuple):
    name: str
    words: str
    shape: Shape
    example: object = None
    is_required: bool = False


class MediaTypes(NamedTuple):
    body: tuple[str, ...] = (JSON,)
    answer: tuple[str, ...] = (JSON,)


_JSON_ALONE: Final = MediaTypes()


@dataclass(frozen=True, slots=True)
class HttpOperation(Generic[Handler_co]):
    """`answer` and `body` are types that msgspec writes and reads, or names among the service's own shapes; None stands
    for no body.
    """

    method: str
    path: str
    name: str  # in the OpenAPI document and in the audit trail
    summary: str
    handler: Handler_co
    answer: object = None
    body: object = None
    query: tuple[Parameter, ...] = ()
    # Codes of this operation alone: a status, or a status and two digits.
    errors: tuple[int, ...] = ()
    # The status of a success, where it is not 200 with an answer and 204 without.
    statuses: tuple[int, ...] = ()
    media: MediaTypes = _JSON_ALONE
    right: str | None = None
    is_public: bool = False  # see `Route`
    is_body_required: bool = True
    tag: str = ""  # the chapter of the OpenAPI document

    @property
    def success(self) -> tuple[int, ...]:
        return self.statuses or ((204,) if self.answer is None else (200,))


def make_routes(
    operations: Iterable[HttpOperation[Handler_co]],
    bind: Callable[[HttpOperation[Handler_co]], Endpoint],
    limits: HttpLimits | None = None,
) -> list[Route]:
    """`bind` makes the endpoint of a row: the handler, with the service's code around each handler."""
    return [Route(each.path, bind(each), (each.method,), each.is_public, limits) for each in operations]
