"""The drafts of JSON Schema, and which keywords hold schemas in each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from penstock.schemas.json_text import Json


class Draft(IntEnum):
    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020


METASCHEMAS: dict[Draft, str] = {
    Draft.DRAFT_4: "http://json-schema.org/draft-04/schema",
    Draft.DRAFT_6: "http://json-schema.org/draft-06/schema",
    Draft.DRAFT_7: "http://json-schema.org/draft-07/schema",
    Draft.DRAFT_2019_09: "https://json-schema.org/draft/2019-09/schema",
    Draft.DRAFT_2020_12: "https://json-schema.org/draft/2020-12/schema",
}
# Also with the other scheme: authors mix them up.
_BY_NAME = {uri.partition("://")[2]: draft for draft, uri in METASCHEMAS.items()}


def draft_named(uri: str) -> Draft | None:
    return _BY_NAME.get(uri.partition("://")[2].rstrip("#"))


def draft_of(document: Json, default: Draft = Draft.DRAFT_7) -> Draft:
    """The draft that a document names, else draft 7, as Confluent's registry has it."""
    named = document.get("$schema") if isinstance(document, dict) else None
    return (draft_named(named) if isinstance(named, str) else None) or default


# Keywords with one schema, with a list of schemas, with schemas by name. `items` and `dependencies` hold either of two.
_SCHEMA = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LIST = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAP = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


def subschemas(schema: Json) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The schemas right inside a schema, each with its path. Values that only look like schemas are not among them."""
    if not isinstance(schema, dict):
        return
    for keyword in _SCHEMA:
        if isinstance(inner := schema.get(keyword), dict | bool):
            yield (keyword,), inner
    for keyword in _LIST:
        if isinstance(several := schema.get(keyword), list):
            yield from (((keyword, str(index)), inner) for index, inner in enumerate(several))
    for keyword in _MAP:
        if isinstance(named := schema.get(keyword), dict):
            for name, inner in named.items():
                if isinstance(inner, dict | bool):
                    yield (keyword, name), inner
