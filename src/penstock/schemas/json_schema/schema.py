"""A JSON schema that was parsed, with the schemas it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.schemas.json_schema.comparison import Comparison
from penstock.schemas.json_schema.differences import describe
from penstock.schemas.json_schema.documents import Documents
from penstock.schemas.json_schema.drafts import draft_of, subschemas
from penstock.schemas.json_schema.effort import Effort, measure
from penstock.schemas.json_schema.model import Model, SchemaNode
from penstock.schemas.json_schema.tags import entities
from penstock.schemas.json_schema.validators import check_against_metaschema, check_expression, check_form, has_counts
from penstock.schemas.json_text import Json, read_json, write_json
from penstock.schemas.limits import Limits, bounded
from penstock.schemas.schema import (
    Difference,
    InvalidSchemaError,
    ParsedSchema,
    Policy,
    Reference,
    ResolvedReference,
    SchemaTags,
    SchemaType,
)
from penstock.schemas.tags import retag, tags_of


def parse_json_schema(
    text: str,
    references: tuple[Reference, ...],
    resolved: Sequence[ResolvedReference],
    limits: Limits,
    *,
    is_new: bool,
) -> JsonSchema:
    document = read_json(text, limits)
    if not isinstance(document, dict | bool):
        raise InvalidSchemaError("A JSON schema is an object, or true or false")
    check_against_metaschema(text, draft_of(document))
    if is_new:
        _check_expressions(document)
    documents = Documents(limits)
    for reference in resolved:
        referred = read_json(reference.text, limits)
        check_against_metaschema(reference.text, draft_of(referred))
        documents.add(reference.name, referred)
    documents.add("", document)
    documents.check()
    return JsonSchema(document, references, Model(documents, limits), limits)


# Each check may take a millisecond.
_MOST_EXPRESSIONS = 1_000
# Expressions with counts take longer: two seconds for all of them at worst. Of more only the form is checked.
_MOST_COUNTED = 50


def _check_expressions(document: Json) -> None:
    """Stored schemas may have expressions of another dialect; those match nothing."""
    waiting = [document]
    seen: set[str] = set()
    counted = 0
    while waiting:
        schema = waiting.pop()
        waiting += [inner for _, inner in subschemas(schema)]
        if not isinstance(schema, dict):
            continue
        patterns = schema.get("patternProperties")
        for pattern in [schema.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]:
            if isinstance(pattern, str) and pattern not in seen:
                counted += has_counts(pattern)
                (check_expression if has_counts(pattern) and counted <= _MOST_COUNTED else check_form)(pattern)
                seen.add(pattern)
                if len(seen) > _MOST_EXPRESSIONS:
                    raise InvalidSchemaError(f"The schema has more than {_MOST_EXPRESSIONS} regular expressions")


@dataclass(frozen=True)
class JsonSchema:
    document: Json
    references: tuple[Reference, ...]
    _model: Model = field(repr=False)
    _limits: Limits = field(repr=False)

    schema_type = SchemaType.JSON

    @cached_property
    def canonical_text(self) -> str:
        return write_json(self.document)

    @property
    def name(self) -> str | None:
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else None

    @property
    def root(self) -> SchemaNode:
        return self._model.node(self.document)

    @bounded
    def effort(self) -> Effort:
        """How much work it is to check a value by the schema. Raises InvalidSchemaError for too much."""
        return measure(self.document, self._model.documents)

    def normalized(self) -> NormalizedJsonSchema:
        return NormalizedJsonSchema(self.document, tuple(sorted(set(self.references))), self._model, self._limits)

    def formatted(self, format_name: str) -> str:
        return self.canonical_text

    def has_top_level_field(self, name: str) -> bool:
        properties = self.document.get("properties") if isinstance(self.document, dict) else None
        return isinstance(properties, dict) and name in properties

    def inline_tags(self) -> list[SchemaTags]:
        return tags_of(entities(self.document))

    def retagged_text(self, add: Sequence[SchemaTags], remove: Sequence[SchemaTags]) -> str:
        document = read_json(self.canonical_text, self._limits)
        retag(entities(document), add, remove)
        return write_json(document)

    @bounded
    def differences_from(self, writer: ParsedSchema, policy: Policy) -> list[Difference]:
        assert isinstance(writer, JsonSchema)
        return [describe(each) for each in Comparison(policy, self._limits).compare(writer.root, self.root)]


class NormalizedJsonSchema(JsonSchema):
    """The same schema, printed with sorted keys. Its meaning is that of the original schema."""

    @cached_property
    def canonical_text(self) -> str:
        return write_json(self.document, sort_keys=True)
