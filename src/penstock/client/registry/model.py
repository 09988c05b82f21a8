"""Schemas as a registry's answers have them. Plain data: `penstock.schemas` understands the text, this does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

AVRO = "AVRO"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class NewSchema:
    """What is registered, looked up or checked."""

    text: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    # Metadata and rules as the API has them. They count when schemas are compared by the registry.
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"schema": self.text, "schemaType": self.schema_type}
        if self.references:
            document["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in self.references
            ]
        if self.metadata is not None:
            document["metadata"] = dict(self.metadata)
        if self.rule_set is not None:
            document["ruleSet"] = dict(self.rule_set)
        return document


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema that the registry has. An answer by id has no subject, and an old registry's no guid."""

    schema: NewSchema
    id: int | None = None
    guid: str | None = None
    subject: str | None = None
    version: int | None = None

    @property
    def text(self) -> str:
        return self.schema.text

    @property
    def schema_type(self) -> str:
        return self.schema.schema_type

    @property
    def references(self) -> tuple[SchemaReference, ...]:
        return self.schema.references

    @classmethod
    def of_json(cls, document: Any, *, schema_id: int | None = None) -> Self:
        """Raises ValueError, KeyError or TypeError for what is no such answer."""
        references = tuple(
            SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in document.get("references") or ()
        )
        text = document["schema"]
        if not isinstance(text, str):
            raise TypeError("the schema is no text")
        schema = NewSchema(
            text,
            str(document.get("schemaType") or AVRO),
            references,
            document.get("metadata"),
            document.get("ruleSet"),
        )
        given_id = document.get("id", schema_id)
        return cls(
            schema,
            None if given_id is None else int(given_id),
            document.get("guid"),
            document.get("subject"),
            None if document.get("version") is None else int(document["version"]),
        )


@dataclass(frozen=True, slots=True)
class ReferencedSchema:
    """A schema that another one needs, directly or through others, and the name that it is needed by."""

    name: str
    text: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a schema fits, and what does not."""

    is_compatible: bool
    messages: tuple[str, ...] = ()
