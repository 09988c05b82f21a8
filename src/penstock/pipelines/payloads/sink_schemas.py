"""The schema that a sink writes with: chosen on the driver, before anything is written. Tasks call no registry.

Without a text, an id and `is_latest` the schema follows from the columns: the latest version of the subject where the
columns fit, so that a query that leaves out optional fields makes no new version; else one that is derived from the
columns, with the names and field numbers of the latest version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.registry import (
    NewSchema,
    ReferencedSchema,
    RegisteredSchema,
    RegistryAnswerError,
    RegistryClient,
    RegistryClientError,
    RegistrySettings,
    SchemaReference,
)
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.schema_derivation import arrow_type, derive_schema
from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Reference, ResolvedReference, SchemaType
from penstock.serdes.columns.encoding.open_encoding import open_encoding
from penstock.serdes.columns.encoding.rows import ColumnEncoder
from penstock.serdes.errors import SerdesError, UnusableSchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Of a registry's verdict: the first sentences name the fault, the last ones repeat both schemas.
_MOST_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """The schema that a sink writes with: a text, an id, the latest version, or one that follows from the columns."""

    subject: str
    schema_type: SchemaType = SchemaType.AVRO
    # Registered after its compatibility was checked; only looked up without `auto_register`.
    text: str | None = None
    references: tuple[SchemaReference, ...] = ()
    schema_id: int | None = None
    is_latest: bool = False
    auto_register: bool = True
    # The message's name in a Protobuf file.
    message: str | None = None
    # Of a schema that is derived. Without a name it is that of the latest version, or follows from the subject.
    name: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class SinkSchema:
    """All that a task needs to write with the schema; picklable."""

    schema_type: SchemaType
    text: str
    schema_id: int
    guid: str | None = None
    subject: str | None = None
    version: int | None = None
    references: tuple[SchemaReference, ...] = ()
    # The schemas that it refers to, directly or through others.
    referenced: tuple[ReferencedSchema, ...] = ()
    message: str | None = None

    def encoding(self) -> ColumnEncoder:
        """Raises SerdesError."""
        texts = {each.name: each.text for each in self.referenced}
        return open_encoding(self.parsed(), self.message, texts)

    def parsed(self) -> ParsedSchema:
        """Raises UnusableSchemaError."""
        references = [Reference(each.name, each.subject, each.version) for each in self.references]
        resolved = [ResolvedReference(each.name, each.text, each.subject, each.version) for each in self.referenced]
        try:
            return parse(self.schema_type, self.text, references, resolved, is_new=False)
        except InvalidSchemaError as error:
            raise UnusableSchemaError(f"the schema cannot be used: {error}") from None


def register_schema(
    registry: RegistrySettings | RegistryClient, request: SchemaRequest, columns: StructType
) -> SinkSchema:
    """Registers nothing before the columns fit and the registry finds the schema compatible.

    Blocks. Raises PipelineError, which names the columns that do not fit, or the version and what is incompatible with
    it.
    """
    if isinstance(registry, RegistrySettings):
        with RegistryClient(registry) as client:
            return register_schema(client, request, columns)
    if sum((request.text is not None, request.schema_id is not None, request.is_latest)) > 1:
        raise PipelineError("a sink's schema is named by one of its text, its id, and latest")
    with _explained(request.subject):
        return _Choice(registry, request, columns).made()


@contextmanager
def _explained(subject: str) -> Iterator[None]:
    try:
        yield
    except RegistryAnswerError as error:
        hint = "The user of the registry needs rights on the subject." if error.is_refused_login else ""
        raise PipelineError(f"the registry refuses subject {subject}: {error}", hint) from None
    except RegistryClientError as error:
        raise PipelineError(f"the schema registry cannot be asked about {subject}: {error}") from None
    except SerdesError as error:
        raise PipelineError(f"the schema of {subject} cannot be used: {error}") from None


class _Choice:
    def __init__(self, client: RegistryClient, request: SchemaRequest, columns: StructType) -> None:
        self._client = client
        self._request = request
        self._columns = columns

    def made(self) -> SinkSchema:
        request = self._request
        if request.schema_id is not None:
            return self._checked(self._client.schema_by_id(request.schema_id, request.subject))
        latest = self._latest()
        if request.is_latest:
            if latest is None:
                raise PipelineError(
                    f"subject {request.subject} has no schema to write with",
                    "Give the schema's text, or let it be derived from the columns.",
                )
            return self._checked(latest)
        if request.text is not None:
            return self._registered(request.text)
        is_alike = latest is not None and latest.schema_type == request.schema_type.value
        if latest is not None and is_alike and not self._problems(self._sink(latest)):
            return self._sink(latest)
        return self._registered(self._derived(latest if is_alike else None))

    def _latest(self) -> RegisteredSchema | None:
        try:
            return self._client.administration.version(self._request.subject, "latest")
        except RegistryAnswerError as error:
            if error.is_not_found:
                return None
            raise

    def _derived(self, latest: RegisteredSchema | None) -> str:
        request = self._request
        name, namespace = request.name, request.namespace
        known = None if latest is None or name is not None else self._sink(latest).parsed().name
        if known is not None:
            namespace, _, name = (
                known.rpartition(".") if request.schema_type is not SchemaType.JSON else ("", "", known)
            )
        earlier = latest.text if latest is not None and request.schema_type is SchemaType.PROTOBUF else None
        name = name or name_for(request.subject)
        return derive_schema(self._columns, request.schema_type, name, namespace, earlier=earlier)

    def _registered(self, text: str) -> SinkSchema:
        request = self._request
        new = NewSchema(text, request.schema_type.value, request.references)
        # Before the registry sees it, with an id that nothing is written with.
        self._checked(RegisteredSchema(new, 0, subject=request.subject))
        try:
            return self._checked(self._client.lookup(request.subject, new))
        except RegistryAnswerError as error:
            if not error.is_not_found:
                raise
        if not request.auto_register:
            raise PipelineError(
                f"subject {request.subject} does not have the schema that rows are to be written with",
                "Register it first, or allow the sink to register it.",
            )
        self._check_compatible(new)
        return self._checked(self._client.register(request.subject, new))

    def _check_compatible(self, new: NewSchema) -> None:
        try:
            verdict = self._client.administration.check(self._request.subject, new)
        except RegistryAnswerError as error:
            if error.is_not_found:  # the first version
                return
            raise
        if not verdict.is_compatible:
            reasons = "\n  ".join(verdict.messages[:_MOST_MESSAGES]) or "the registry does not say why"
            raise PipelineError(
                f"the schema is not compatible with the versions of subject {self._request.subject}:\n  {reasons}",
                "Nothing was registered or written. Change the columns, write with the latest version, or set another "
                "compatibility level for the subject.",
            )

    def _checked(self, schema: RegisteredSchema) -> SinkSchema:
        sink = self._sink(schema)
        problems = self._problems(sink)
        if problems:
            shown = "\n  ".join(problems)
            which = f"the {sink.schema_type} schema of subject {self._request.subject}"
            raise PipelineError(f"the columns do not fit {which}:\n  {shown}", "Nothing was registered or written.")
        return sink

    def _problems(self, sink: SinkSchema) -> list[str]:
        return sink.encoding().problems(arrow_type(self._columns))

    def _sink(self, schema: RegisteredSchema) -> SinkSchema:
        if schema.id is None:
            raise PipelineError(f"the registry gives no id for the schema of {self._request.subject}")
        try:
            schema_type = SchemaType(schema.schema_type)
        except ValueError:
            raise PipelineError(f"schemas of the type {schema.schema_type[:40]!r} are unknown") from None
        return SinkSchema(
            schema_type,
            schema.text,
            schema.id,
            schema.guid,
            self._request.subject,
            schema.version,
            schema.references,
            self._client.referenced(schema.schema, self._request.subject),
            self._request.message,
        )


def name_for(subject: str) -> str:
    """A name that all formats take: `shop_orders` of `shop.orders-value`."""
    plain = subject.rpartition(":")[2].removesuffix("-value").removesuffix("-key")
    name = re.sub(r"[^A-Za-z0-9_]", "_", plain) or "_"
    return f"_{name}" if name[0].isdigit() else name
