"""How often a validator looks at one place of a value, at worst, and how deep values may nest for that to stay bounded.

A validator follows every reference anew. Where several branches refer to the same schema at the same place, visits
multiply with each step of the references, and in recursive schemas with each level of the value: thirty lines of text
mean hours of work. The count needs no such visits: level by level, for each set of schemas that can meet at one place,
equal ones are counted together. The value at a place is ignored, so the count is an upper bound; `patternProperties`
are taken to apply to every name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.schemas.json_schema.documents import Documents
from penstock.schemas.json_text import Json
from penstock.schemas.schema import InvalidSchemaError

# Visits of one place: some 70 ns each. Schemas of human authors have tens, those of thousands of branches thousands.
MOST_VISITS = 20_000
# Steps of the count itself: about a second.
_MOST_STEPS = 1_000_000
# No value from JSON text nests deeper: Python's reader gives up.
_MOST_LEVELS = 1_000

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_NAMED = ("dependentSchemas", "dependencies")

Counts = dict[int, int]


@dataclass(frozen=True, slots=True)
class Effort:
    # Levels that a value may have: 0 is a text or a number. None: no bound.
    deepest: int | None
    # The most visits of any place that is allowed.
    visits: int


def measure(document: Json, documents: Documents) -> Effort:
    """Raises InvalidSchemaError where even the outermost place has too many visits."""
    return _Measure(documents).measure(document)


@dataclass(slots=True)
class _Measure:
    documents: Documents
    steps: int = 0
    visits: int = 0
    schemas: dict[int, Mapping[str, Json]] = field(default_factory=dict)

    def measure(self, document: Json) -> Effort:
        level = [self._counts([document])]
        seen = {frozenset(level[0].items())}
        for depth in range(_MOST_LEVELS):
            following: list[Counts] = []
            for state in level:
                met = self._closure(state)
                if met is None:
                    if depth == 0:
                        raise InvalidSchemaError("The schema refers to itself too often to check data by it")
                    return Effort(depth - 1, self.visits)
                self.visits = max(self.visits, sum(met.values()))
                for inner in self._inner(met):
                    key = frozenset(inner.items())
                    if key and key not in seen:
                        seen.add(key)
                        following.append(inner)
            if self.steps > _MOST_STEPS:
                return Effort(depth, self.visits)
            if not following:
                return Effort(None, self.visits)
            level = following
        return Effort(None, self.visits)

    def _counts(self, schemas: list[Json]) -> Counts:
        counts: Counts = {}
        for schema in schemas:
            if isinstance(schema, dict):
                self.schemas[id(schema)] = schema
                counts[id(schema)] = counts.get(id(schema), 0) + 1
        return counts

    def _closure(self, state: Counts) -> Counts | None:
        """How often each schema is met at a place, including the schemas that they apply there; None for too often."""
        met: Counter[int] = Counter()
        wave = state
        total = 0
        while wave:
            total += sum(wave.values())
            self.steps += len(wave)
            if total > MOST_VISITS or self.steps > _MOST_STEPS:
                return None
            met.update(wave)
            following: Counter[int] = Counter()
            for schema_id, count in wave.items():
                for inner, times in self._counts(list(self._applied(self.schemas[schema_id]))).items():
                    following[inner] += count * times
            wave = following
        return met

    def _applied(self, schema: Mapping[str, Json]) -> Iterator[Json]:
        """The schemas that `schema` applies to the same value."""
        for keyword in _REFERENCES:
            if isinstance(schema.get(keyword), str):
                yield self.documents.follow(dict_of(schema), keyword)
        for keyword in _LISTS:
            several = schema.get(keyword)
            if isinstance(several, list):
                yield from several
        for keyword in _SINGLE:
            yield schema.get(keyword)
        for keyword in _NAMED:
            named = schema.get(keyword)
            if isinstance(named, dict):
                yield from named.values()

    def _inner(self, met: Counts) -> Iterator[Counts]:
        """The schemas that meet at the places inside, for each kind of place."""
        for kind in (_properties, _items):
            others: Counter[int] = Counter()
            changes: dict[str | int, Counter[int]] = {}
            for schema_id, count in met.items():
                named, rest, always = kind(self.schemas[schema_id])
                for inner, times in self._counts([rest, *always]).items():
                    others[inner] += count * times
                for name, schema in named.items():
                    change = changes.setdefault(name, Counter())
                    for inner, times in self._counts([schema]).items():
                        change[inner] += count * times
                    for inner, times in self._counts([rest]).items():
                        change[inner] -= count * times
            self.steps += len(met)
            yield dict(others)
            for change in changes.values():
                self.steps += 1 + len(others) + len(change)
                if self.steps > _MOST_STEPS:
                    return
                both = Counter(others)
                both.update(change)
                yield {inner: times for inner, times in both.items() if times > 0}
        names: Counter[int] = Counter()
        for schema_id, count in met.items():
            for inner, times in self._counts([self.schemas[schema_id].get("propertyNames")]).items():
                names[inner] += count * times
        yield dict(names)


def dict_of(schema: Mapping[str, Json]) -> Json:
    assert isinstance(schema, dict)
    return schema


Inner = tuple[Mapping["str | int", Json], Json, list[Json]]


def _properties(schema: Mapping[str, Json]) -> Inner:
    """Schemas of named properties, of all others, and of every property."""
    named, patterns = schema.get("properties"), schema.get("patternProperties")
    always = list(patterns.values()) if isinstance(patterns, dict) else []
    rest = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
    return dict(named.items()) if isinstance(named, dict) else {}, rest, always


def _items(schema: Mapping[str, Json]) -> Inner:
    items, first = schema.get("items"), schema.get("prefixItems")
    rest = items
    if isinstance(items, list):
        first, rest = items, schema.get("additionalItems")
    if rest is None:
        rest = schema.get("unevaluatedItems")
    return dict(enumerate(first)) if isinstance(first, list) else {}, rest, [schema.get("contains")]
