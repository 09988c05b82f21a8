"""One request as an operation sees it: the names in the path, the query, the caller.

A name in a path below `/contexts/:.c:` is in that context, unless it names another context itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.registry.api.access import Access, Caller
from penstock.registry.api.query import QueryString, no_such_page, parse_integer
from penstock.registry.api.rights import Right
from penstock.registry.errors import RegistryError
from penstock.registry.model import SchemaAnswer
from penstock.registry.names import DEFAULT_CONTEXT, EVERY_CONTEXT, GLOBAL_SCOPE, beside, canonical, join, split
from penstock.registry.service import SchemaService
from penstock.schemas.schema import Reference
from penstock.security.audit.events import Detail

NO_OWN_CONFIG = 40408


@dataclass(slots=True)
class Identity:
    """The answer of `/v1/metadata`. The id of the cluster is filled in when a broker has sent it."""

    kafka_cluster_id: str = ""
    group_id: str = "schema-registry"
    version: str = ""


class Api(NamedTuple):
    """The context that all operations share."""

    service: SchemaService
    access: Access
    identity: Identity
    # Empty once requests can be served; otherwise the reason.
    why_not_ready: Callable[[], str]


class Call:
    __slots__ = ("_query", "api", "details", "name", "request", "service")

    def __init__(self, api: Api, name: str, request: Request) -> None:
        self.api = api
        self.service = api.service
        self.name = name  # of the operation
        self.request = request
        self.details: dict[str, Detail] = {}  # for the audit trail
        self._query: QueryString | None = None

    @property
    def query(self) -> QueryString:
        if self._query is None:
            self._query = QueryString(self.request.scope["query_string"])
        return self._query

    @property
    def caller(self) -> Caller:
        client = self.request.client
        return Caller(self.request.state.principal or "", "" if client is None else client.host)

    # -------------------------------------------------------------------------------------------- names in the path

    @property
    def context(self) -> str:
        """The context of the path's prefix."""
        text = self.request.path_params.get("context")
        if text is None:
            return DEFAULT_CONTEXT
        name = text.removeprefix(":").removesuffix(":")
        if not name.startswith(".") or ":" in name:
            raise no_such_page()
        return str(name)

    @property
    def subject(self) -> str:
        """The canonical spelling of the path's subject; that of the context, or "", where the path names none."""
        return self.qualify(self.request.path_params.get("subject", ""))

    @property
    def version(self) -> str:
        version: str = self.request.path_params["version"]
        return version

    @property
    def schema_id(self) -> int:
        return parse_integer(self.request.path_params["id"])

    def qualify(self, name: str) -> str:
        if name.startswith(EVERY_CONTEXT):
            return name
        return canonical(name) if name.startswith(":.") else join(self.context, name)

    # -------------------------------------------------------------------------------------------- rights

    def check(self, right: Right, subject: str) -> None:
        self.api.access.check(self.caller, right, subject, self.name)

    def may_read(self, subject: str) -> bool:
        return self.api.access.may(self.caller, Right.READ, subject)

    def readable(self, subjects: Iterable[str]) -> list[str]:
        return [each for each in subjects if self.may_read(each)]

    @property
    def is_limited(self) -> bool:
        return self.api.access.is_limited

    async def authorise(self, right: Right) -> None:
        """Checks the right on the subject of the path, and on the subject of its alias. A change that concerns all
        subjects needs ADMIN; every caller may read it.
        """
        subject = self.subject
        if subject in ("", GLOBAL_SCOPE) and right is not Right.ADMIN:
            if right is Right.WRITE_CONFIG:
                self.check(Right.ADMIN, subject)
            return
        self.check(right, subject)
        if right is Right.ADMIN or not split(subject).name:
            return
        alias = await self._alias_of(subject)
        if alias:
            self.check(right, beside(subject, alias))

    async def _alias_of(self, subject: str) -> str | None:
        try:
            return (await self.service.settings.config(subject)).alias
        except RegistryError as error:
            if error.code != NO_OWN_CONFIG:
                raise
            return None

    def check_found(self, schema: SchemaAnswer) -> None:
        """A name without a context may be found in any context: the right on the found subject counts."""
        if self.is_limited and schema.stored.subject != self.subject:
            self.check(Right.READ, schema.stored.subject)

    async def check_numbers(self) -> None:
        """As `check_found`, for answers that do not name their subject."""
        if not self.is_limited:
            return
        for deleted in (False, True):
            try:
                found = await self.service.subjects.version(self.subject, "latest", deleted=deleted)
            except RegistryError:
                continue  # the operation itself answers that there is none
            self.check_found(found)
            return

    def check_references(self, references: Iterable[Reference]) -> None:
        """A caller that may read a schema may read its references through it."""
        if self.is_limited:
            for reference in references:
                self.check(Right.READ, beside(self.subject, reference.subject))


Handler = Callable[[Call], Awaitable[Response]]
