"""A JSON schema as a list of demands, all of which a value has to meet.

The drafts use different words for the same demands (`items` and `prefixItems`, `exclusiveMinimum` as a flag and as a
number); here they have one form. A list of types is a choice between schemas of one type each, as Confluent's registry
takes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.schemas.json_schema.documents import Documents
from penstock.schemas.json_schema.drafts import Draft
from penstock.schemas.json_text import Json, write_json
from penstock.schemas.limits import Budget, Limits
from penstock.schemas.schema import InvalidSchemaError

Path: TypeAlias = "tuple[str, ...]"
Schema: TypeAlias = "dict[str, Json] | bool"


@dataclass(frozen=True, slots=True, eq=False)
class SchemaNode:
    """A schema at one place. The same place is always the same node, so nodes are compared as objects."""

    schema: Schema
    draft: Draft
    model: Model

    @property
    def is_false(self) -> bool:
        return self.schema is False

    def demands(self) -> list[Demand]:
        return self.model.demands(self)

    def inner(self, schema: Json) -> SchemaNode:
        """The node of a schema inside this one."""
        return self.model.node(schema)


@dataclass(frozen=True, slots=True)
class Plain:
    """Demands on the type and on values of each type, by keyword."""

    path: Path
    type: str | None
    keywords: Mapping[str, Json]
    node: SchemaNode

    def applies_to(self, *types: str) -> bool:
        return self.type is None or self.type in types


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the branches has to fit; with `exactly_one`, no other may."""

    path: Path
    branches: Sequence[SchemaNode]
    exactly_one: bool = False
    # A list of types rather than a list of schemas.
    of_types: bool = False


@dataclass(frozen=True, slots=True)
class Values:
    path: Path
    # In a form in which equal values are equal strings.
    identities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Negation:
    path: Path
    node: SchemaNode


@dataclass(frozen=True, slots=True)
class Condition:
    path: Path
    test: SchemaNode
    then: SchemaNode
    otherwise: SchemaNode


Demand: TypeAlias = "Plain | Choice | Values | Negation | Condition"

# Keywords that demand nothing of values: words about the schema, and schemas for references.
_ANNOTATIONS = frozenset(
    {
        "$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef",
        "$ref", "$schema", "$vocabulary", "default", "definitions", "deprecated", "description", "examples", "format",
        "id", "readOnly", "title", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema",
    }
)  # fmt: skip
_OTHER_DEMANDS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "type"})
_NOT_PLAIN = _ANNOTATIONS | _OTHER_DEMANDS
# The drafts that brought keywords: in earlier drafts they mean nothing.
_SINCE = {
    "contains": Draft.DRAFT_6,
    "propertyNames": Draft.DRAFT_6,
    "dependentRequired": Draft.DRAFT_2019_09,
    "dependentSchemas": Draft.DRAFT_2019_09,
    "maxContains": Draft.DRAFT_2019_09,
    "minContains": Draft.DRAFT_2019_09,
    "unevaluatedItems": Draft.DRAFT_2019_09,
    "unevaluatedProperties": Draft.DRAFT_2019_09,
    "prefixItems": Draft.DRAFT_2020_12,
}


class Model:
    """The nodes of one schema and of its references, made on demand."""

    def __init__(self, documents: Documents, limits: Limits) -> None:
        self.documents = documents
        # For all nodes together: collected demands are kept.
        self._budget = Budget(limits)
        # The final targets of schemas that are only references.
        self._targets: dict[int, Schema] = {}
        self._nodes: dict[tuple[int, str], SchemaNode] = {}
        self._demands: dict[int, list[Demand]] = {}

    def node(self, schema: Json) -> SchemaNode:
        if not isinstance(schema, dict | bool):
            # A keyword that the draft does not know, so that its metaschema lets any value pass.
            raise InvalidSchemaError(f"A schema is an object, or true or false, not {write_json(schema)[:200]}")
        schema = self._followed(schema)
        key = (id(schema), "")
        if key not in self._nodes:
            draft = Draft.DRAFT_7 if isinstance(schema, bool) else self.documents.scope(schema).draft
            self._nodes[key] = SchemaNode(schema, draft, self)
        return self._nodes[key]

    def _followed(self, schema: Schema) -> Schema:
        """The final target of a schema that is only a reference. `Documents` has checked that such references end."""
        passed: list[int] = []
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and id(schema) not in self._targets:
            before_2019 = self.documents.scope(schema).draft < Draft.DRAFT_2019_09
            if not before_2019 and not schema.keys() <= _ANNOTATIONS:
                break
            passed.append(id(schema))
            following = self.documents.follow(schema)
            assert isinstance(following, dict | bool)
            schema = following
        target = self._targets.get(id(schema), schema)
        self._targets |= dict.fromkeys(passed, target)
        return target

    def _typed(self, node: SchemaNode, kind: str) -> SchemaNode:
        """The part of a schema that is about one of its types."""
        key = (id(node.schema), kind)
        if key not in self._nodes:
            assert isinstance(node.schema, dict)
            inner = {name: value for name, value in node.schema.items() if name not in _NOT_PLAIN}
            self._nodes[key] = SchemaNode(inner | {"type": kind}, node.draft, self)
        return self._nodes[key]

    def demands(self, node: SchemaNode) -> list[Demand]:
        """All demands of a schema, of its `allOf` and of its reference; none: any value fits."""
        if id(node) not in self._demands:
            self._demands[id(node)] = self._collect(node)
        return self._demands[id(node)]

    def _collect(self, start: SchemaNode) -> list[Demand]:
        found: list[Demand] = []
        waiting: deque[tuple[SchemaNode, Path]] = deque([(start, ())])
        seen: set[int] = set()
        while waiting:
            self._budget.spend()
            node, path = waiting.popleft()
            if id(node) in seen or isinstance(node.schema, bool):
                if node.schema is False:
                    found.append(Choice(path, ()))
                continue
            seen.add(id(node))
            schema = node.schema
            for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                if isinstance(schema.get(keyword), str):
                    waiting.append((self.node(self.documents.follow(schema, keyword)), path))
            if isinstance(schema.get("$ref"), str) and node.draft < Draft.DRAFT_2019_09:
                continue
            found += self._own(node, path)
            parts = schema.get("allOf")
            if isinstance(parts, list):
                waiting += [(self.node(part), (*path, "allOf", str(index))) for index, part in enumerate(parts)]
        return found

    def _own(self, node: SchemaNode, path: Path) -> list[Demand]:
        schema = node.schema
        assert isinstance(schema, dict)
        found: list[Demand] = []
        plain = {
            name: value
            for name, value in schema.items()
            if name not in _NOT_PLAIN and _SINCE.get(name, Draft.DRAFT_4) <= node.draft
        }
        types = schema.get("type")
        if isinstance(types, list) and len(types) > 1:
            found.append(Choice(path, [self._typed(node, str(each)) for each in types], of_types=True))
        elif plain or types:
            kind = types[0] if isinstance(types, list) and types else types
            found.append(Plain(path, str(kind) if kind else None, plain, node))
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list):
                nodes = [self.node(branch) for branch in branches]
                found.append(Choice((*path, keyword), nodes, exactly_one=keyword == "oneOf"))
        if isinstance(values := schema.get("enum"), list):
            found.append(Values((*path, "enum"), frozenset(identity(value) for value in values)))
        if "const" in schema and node.draft > Draft.DRAFT_4:
            found.append(Values((*path, "const"), frozenset({identity(schema["const"])})))
        if isinstance(schema.get("not"), dict | bool):
            found.append(Negation((*path, "not"), self.node(schema["not"])))
        if "if" in schema and node.draft >= Draft.DRAFT_7:
            then, otherwise = self.node(schema.get("then", True)), self.node(schema.get("else", True))
            found.append(Condition((*path, "if"), self.node(schema["if"]), then, otherwise))
        return found


def identity(value: Json) -> str:
    """Equal for equal values: for 1 and 1.0, and for objects with their keys in another order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{identity(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(identity(each) for each in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(float(value)) if isinstance(value, float) else repr(value)
