"""References from schema to schema: identifiers, anchors, pointers. A reference outside the given documents is an
error.

A document is known by its `$id` and by the name that the registry gives it in the list of references. A reference is
looked up resolved against its base, and then as it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urldefrag, urljoin

from penstock.schemas.json_schema.drafts import Draft, draft_named, draft_of, subschemas
from penstock.schemas.json_text import Json
from penstock.schemas.limits import Budget, Limits
from penstock.schemas.schema import InvalidSchemaError

_EXCERPT = 200


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a schema: the base of its references, and the draft by which it is read."""

    base: str
    draft: Draft


@dataclass(slots=True)
class Documents:
    """All schemas that a reference can reach, by address. Schemas are found by identity afterwards, so none is
    copied.
    """

    _limits: Limits
    _by_address: dict[str, Json] = field(default_factory=dict)
    _scopes: dict[int, Scope] = field(default_factory=dict)
    _references: list[tuple[str, Json]] = field(default_factory=list)

    def add(self, name: str, document: Json) -> None:
        """Indexes a document and everything in it, without recursion."""
        draft = draft_of(document)
        self._by_address[name] = document
        waiting: list[tuple[Json, Scope]] = [(document, Scope(name, draft))]
        budget = Budget(self._limits)
        while waiting:
            budget.spend()
            schema, outer = waiting.pop()
            scope = self._enter(schema, outer)
            self._scopes[id(schema)] = scope
            waiting += [(inner, scope) for _, inner in subschemas(schema)]

    def _enter(self, schema: Json, outer: Scope) -> Scope:
        if not isinstance(schema, dict):
            return outer
        draft = draft_of(schema, outer.draft)
        base = outer.base
        identifier = schema.get("id" if draft is Draft.DRAFT_4 else "$id")
        if isinstance(identifier, str) and ("$ref" not in schema or draft >= Draft.DRAFT_2019_09):
            address = _joined(base, identifier)
            self._by_address.setdefault(address.rstrip("#"), schema)
            if not identifier.startswith("#"):
                base = urldefrag(address).url
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(keyword), str):
                self._by_address.setdefault(f"{base}#{anchor}", schema)
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(keyword), str):
                self._references.append((keyword, schema))
        return Scope(base, draft)

    def scope(self, schema: Json) -> Scope:
        return self._scopes[id(schema)]

    def check(self) -> None:
        """Checks that every reference leads to a schema, and that no chain of schemas that are only references is a
        ring.
        """
        settled: set[int] = set()
        for keyword, schema in self._references:
            chain: set[int] = set()
            while id(schema) not in settled:
                if id(schema) in chain:
                    raise InvalidSchemaError("A $ref leads back to itself")
                chain.add(id(schema))
                following = self.follow(schema, keyword)
                if not isinstance(following, dict) or not isinstance(following.get("$ref"), str):
                    break
                schema, keyword = following, "$ref"
            settled |= chain

    def follow(self, schema: Json, keyword: str = "$ref") -> Json:
        """The schema that the reference names."""
        assert isinstance(schema, dict)
        reference = str(schema[keyword])
        scope = self.scope(schema)
        found = self._find(_joined(scope.base, reference))
        if found is None:
            found = self._find(reference)
        if found is not None:
            return found[0]
        if draft_named(reference) is not None:
            # A metaschema takes any schema; which metaschema it is plays no part.
            return True
        raise InvalidSchemaError(
            f"Unresolved {keyword} {reference[:_EXCERPT]!r}: it is neither in the schema nor among its references"
        )

    def _find(self, address: str) -> tuple[Json] | None:
        """In a tuple, because a schema may well be false."""
        address = address.rstrip("#")
        if address in self._by_address:
            return (self._by_address[address],)
        resource, fragment = urldefrag(address)
        document = self._by_address.get(resource)
        if document is None or not fragment.startswith("/"):
            return None
        return self._point(document, unquote(fragment))

    def _point(self, document: Json, pointer: str) -> tuple[Json] | None:
        found = document
        for part in pointer[1:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key[:9]) < len(found):
                found = found[int(key[:9])]
            else:
                return None
        if not isinstance(found, dict | bool):
            return None
        if isinstance(found, dict) and id(found) not in self._scopes:
            # In a place where no keyword expects a schema. It is one now, and so are its parts.
            self._index_late(found, self.scope(document))
        return (found,)

    def _index_late(self, schema: Json, scope: Scope) -> None:
        waiting = [schema]
        while waiting:
            each = waiting.pop()
            if id(each) not in self._scopes:
                self._scopes[id(each)] = self._enter(each, scope)
                waiting += [inner for _, inner in subschemas(each)]


def _joined(base: str, reference: str) -> str:
    try:
        if ":" not in base.split("/", 1)[0]:
            # urljoin leaves references to bases that are plain names, or of a scheme it does not know, as they are.
            return _joined_names(base, reference)
        return urljoin(base, reference)
    except ValueError as error:
        raise InvalidSchemaError(f"Invalid reference {reference[:_EXCERPT]!r}: {error}") from None


def _joined_names(base: str, reference: str) -> str:
    if not reference:
        return base
    return base + reference if reference.startswith("#") else urljoin(base, reference)
