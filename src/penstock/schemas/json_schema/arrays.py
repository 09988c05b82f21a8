"""Demands on arrays: items by position, the rest of the items, their number, and items that must be present."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.schemas.json_schema.content import Comparer, below, compare_open_parts, compare_removed, is_covered
from penstock.schemas.json_schema.differences import Found
from penstock.schemas.json_schema.drafts import Draft
from penstock.schemas.json_schema.model import Plain, SchemaNode
from penstock.schemas.json_schema.scalars import compare_bound
from penstock.schemas.json_text import Json


class _Array:
    """The keywords about arrays of one schema."""

    def __init__(self, plain: Plain) -> None:
        keywords = plain.keywords
        self.keywords = keywords
        node = plain.node
        if node.draft >= Draft.DRAFT_2020_12:
            self.prefix_keyword, self.rest_keyword = "prefixItems", "items"
        elif isinstance(keywords.get("items"), list):
            self.prefix_keyword, self.rest_keyword = "items", "additionalItems"
        else:
            self.prefix_keyword, self.rest_keyword = "", "items"
        prefix = keywords.get(self.prefix_keyword)
        self.prefix = [node.inner(each) for each in prefix] if isinstance(prefix, list) else []
        self.rest_kind = "ADDITIONAL_ITEMS"
        if self.rest_keyword not in keywords and "unevaluatedItems" in keywords:
            self.rest_keyword, self.rest_kind = "unevaluatedItems", "UNEVALUATED_ITEMS"
        rest = keywords.get(self.rest_keyword, True)
        self.rest = node.inner(rest if isinstance(rest, dict | bool) else True)
        contains = keywords.get("contains")
        self.contains: SchemaNode | None = node.inner(contains) if isinstance(contains, dict | bool) else None

    def contained(self) -> Mapping[str, Json]:
        """How many items have to match; one where the schema gives no number."""
        return {"minContains": 1, **self.keywords} if self.contains is not None else {}


def compare_arrays(old_plain: Plain, new_plain: Plain, comparer: Comparer) -> Iterator[Found]:
    old, new = _Array(old_plain), _Array(new_plain)
    yield from compare_bound(old.keywords, new.keywords, "maxItems", "MAX_ITEMS", lower=False)
    yield from compare_bound(old.keywords, new.keywords, "minItems", "MIN_ITEMS", lower=True)
    if new.keywords.get("uniqueItems") is True and old.keywords.get("uniqueItems") is not True:
        yield "UNIQUE_ITEMS_ADDED", ("uniqueItems",)
    yield from _compare_prefixes(old, new, comparer)
    if (
        old.prefix
        or new.prefix
        or old.rest.demands()
        or new.rest.is_false
        or is_covered([old.rest], new.rest, comparer)
    ):
        yield from compare_open_parts(old.rest, new.rest, (new.rest_keyword,), new.rest_kind, comparer)
    else:
        yield "SCHEMA_ADDED", (new.rest_keyword,)
    yield from _compare_contains(old, new, comparer)


def _compare_prefixes(old: _Array, new: _Array, comparer: Comparer) -> Iterator[Found]:
    for index in range(max(len(old.prefix), len(new.prefix))):
        path = (new.prefix_keyword or new.rest_keyword, str(index))
        if index >= len(new.prefix):
            yield from compare_removed(old.prefix[index], [new.rest], path, "ITEM", comparer)
        elif index < len(old.prefix):
            yield from below(path, comparer.compare(old.prefix[index], new.prefix[index]))
        elif not is_covered([old.rest], new.prefix[index], comparer):
            is_open = not old.rest.demands()
            kind = "TO_OPEN_CONTENT_MODEL" if is_open else "NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            yield f"ITEM_ADDED_{kind}", path


def _compare_contains(old: _Array, new: _Array, comparer: Comparer) -> Iterator[Found]:
    if new.contains is None:
        return
    before, after = old.contained(), new.contained()
    if old.contains is None:
        if after.get("minContains") != 0 or "maxContains" in after:
            yield "SCHEMA_ADDED", ("contains",)
        return
    yield from below(("contains",), comparer.compare(old.contains, new.contains))
    yield from compare_bound(before, after, "minContains", "MIN_CONTAINS", lower=True)
    yield from compare_bound(before, after, "maxContains", "MAX_CONTAINS", lower=False)
    # At most the old number: the new schema must not count items that the old one did not.
    if "maxContains" in after and "maxContains" in before:
        yield from below(("contains",), comparer.compare(new.contains, old.contains))
