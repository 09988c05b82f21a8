"""Demands on objects. Which properties may come and go depends on the content models of both schemas."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.schemas.json_schema.content import Comparer, below, compare_open_parts, compare_removed, is_covered
from penstock.schemas.json_schema.differences import Found
from penstock.schemas.json_schema.model import Plain, SchemaNode
from penstock.schemas.json_schema.scalars import compare_bound
from penstock.schemas.json_text import Json


class _Object:
    """The keywords about objects of one schema."""

    def __init__(self, plain: Plain) -> None:
        keywords = plain.keywords
        self.keywords = keywords
        self._node = plain.node
        self.properties = self._nodes("properties")
        self.patterns = self._nodes("patternProperties")
        required = keywords.get("required")
        # Draft 3 had a flag here, which means nothing since.
        self.required = dict.fromkeys(str(name) for name in required) if isinstance(required, list) else {}
        self.rest_keyword, self.rest_kind = "additionalProperties", "ADDITIONAL_PROPERTIES"
        if "additionalProperties" not in keywords and "unevaluatedProperties" in keywords:
            self.rest_keyword, self.rest_kind = "unevaluatedProperties", "UNEVALUATED_PROPERTIES"
        self.rest = plain.node.inner(keywords.get(self.rest_keyword, True))
        self.names = plain.node.inner(keywords.get("propertyNames", True))

    def _nodes(self, keyword: str) -> dict[str, SchemaNode]:
        schemas = self.keywords.get(keyword)
        return {name: self._node.inner(each) for name, each in schemas.items()} if isinstance(schemas, dict) else {}

    def cover(self, name: str, comparer: Comparer) -> list[SchemaNode]:
        """The schemas that apply to a property that is not listed."""
        return [node for pattern, node in self.patterns.items() if comparer.matches(pattern, name)] or [self.rest]

    def has_default(self, name: str) -> bool:
        """A default beside a reference, or in its target."""
        listed = self.keywords.get("properties")
        given = listed.get(name) if isinstance(listed, dict) else None
        referred = self.properties[name].schema if name in self.properties else None
        return any(isinstance(each, dict) and "default" in each for each in (given, referred))

    def dependencies(self) -> dict[tuple[bool, str], tuple[str, Json]]:
        """By kind and name: later drafts have two keywords for the two kinds where there was one."""
        found: dict[tuple[bool, str], tuple[str, Json]] = {}
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            each = self.keywords.get(keyword)
            if isinstance(each, dict):
                found |= {(isinstance(value, list), name): (keyword, value) for name, value in each.items()}
        return found

    def inner(self, schema: Json) -> SchemaNode:
        return self._node.inner(schema)


def compare_objects(old_plain: Plain, new_plain: Plain, comparer: Comparer) -> Iterator[Found]:
    old, new = _Object(old_plain), _Object(new_plain)
    yield from compare_bound(old.keywords, new.keywords, "maxProperties", "MAX_PROPERTIES", lower=False)
    yield from compare_bound(old.keywords, new.keywords, "minProperties", "MIN_PROPERTIES", lower=True)
    yield from compare_open_parts(old.rest, new.rest, (new.rest_keyword,), new.rest_kind, comparer)
    yield from _compare_properties(old, new, comparer)
    yield from _compare_required(old, new)
    yield from _compare_patterns(old, new, comparer)
    yield from _compare_dependencies(old, new, comparer)
    if new.names.demands():
        if old.names.demands():
            yield from below(("propertyNames",), comparer.compare(old.names, new.names))
        else:
            yield "SCHEMA_ADDED", ("propertyNames",)


def _compare_properties(old: _Object, new: _Object, comparer: Comparer) -> Iterator[Found]:
    for name, node in old.properties.items():
        path = ("properties", name)
        if name in new.properties:
            yield from below(path, comparer.compare(node, new.properties[name]))
        else:
            yield from compare_removed(node, new.cover(name, comparer), path, "PROPERTY", comparer)
    for name, node in new.properties.items():
        if name not in old.properties:
            yield from _compare_added(old, new, name, node, comparer)


def _compare_added(old: _Object, new: _Object, name: str, node: SchemaNode, comparer: Comparer) -> Iterator[Found]:
    path = ("properties", name)
    cover = old.cover(name, comparer)
    is_required = name in new.required and name not in old.required and not new.has_default(name)
    is_open = not cover[0].demands()
    if is_required and is_open:
        yield "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path
    elif is_covered(cover, node, comparer):
        if is_required:
            yield "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path
    elif is_open:
        kind = "REQUIRED_PROPERTY_WITH_DEFAULT" if name in new.required else "OPTIONAL_PROPERTY"
        yield f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path
    else:
        yield "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path


def _compare_required(old: _Object, new: _Object) -> Iterator[Found]:
    for name in new.required:
        # The addition of a new property has been reported already.
        is_known = name in old.properties or name not in new.properties
        if name not in old.required and is_known and not new.has_default(name):
            yield "REQUIRED_ATTRIBUTE_ADDED", ("required", name)


def _compare_patterns(old: _Object, new: _Object, comparer: Comparer) -> Iterator[Found]:
    for pattern, node in old.patterns.items():
        path = ("patternProperties", pattern)
        if pattern in new.patterns:
            yield from below(path, comparer.compare(node, new.patterns[pattern]))
        else:
            yield from compare_removed(node, [new.rest], path, "PROPERTY", comparer)
    for pattern, node in new.patterns.items():
        if pattern in old.patterns:
            continue
        # Any property of the old schema may match: the listed ones that do, those of other patterns, the rest.
        before = [each for name, each in old.properties.items() if comparer.matches(pattern, name)]
        if any(comparer.compare(each, node) for each in (*before, *old.patterns.values(), old.rest)):
            yield "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", ("patternProperties", pattern)


def _compare_dependencies(old: _Object, new: _Object, comparer: Comparer) -> Iterator[Found]:
    before = old.dependencies()
    for key, (keyword, after) in new.dependencies().items():
        path = (keyword, key[1])
        kind = "DEPENDENCY_ARRAY" if isinstance(after, list) else "DEPENDENCY_SCHEMA"
        if key not in before:
            yield f"{kind}_ADDED", path
        elif isinstance(after, list):
            earlier = before[key][1]
            assert isinstance(earlier, list)
            was, now = set(map(str, earlier)), set(map(str, after))
            if not now <= was:
                yield f"{kind}_EXTENDED" if was < now else f"{kind}_CHANGED", path
        else:
            yield from below(path, comparer.compare(old.inner(before[key][1]), new.inner(after)))
