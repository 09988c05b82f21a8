"""Whether a new JSON schema takes every value that an old one takes.

A schema is a list of demands (see `model`). Each demand of the new schema has to follow from one of the old schema. The
rules are those of Confluent's registry, with two kinds of exceptions, both stricter: keywords that Confluent ignores
(`patternProperties`, `propertyNames`, `if`), and a type that was open before.

Three rules are Confluent's and not quite true: a choice may get more branches even if just one may fit, a property may
become required if it has a default, and `unevaluatedProperties` ignores what a schema evaluates elsewhere.

A pair of schemas that is being compared further up counts as compatible. If it turns out not to be, the results found
with that assumption are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.schemas.json_schema.arrays import compare_arrays
from penstock.schemas.json_schema.content import below
from penstock.schemas.json_schema.differences import Found, is_tolerated
from penstock.schemas.json_schema.model import Choice, Condition, Demand, Negation, Plain, SchemaNode, Values
from penstock.schemas.json_schema.objects import compare_objects
from penstock.schemas.json_schema.part_matches import candidates_of, match_all
from penstock.schemas.json_schema.scalars import compare_numbers, compare_strings
from penstock.schemas.json_schema.validators import Expression
from penstock.schemas.limits import TOO_FAR_APART, Budget, Limits
from penstock.schemas.pairs import ComparedPairs
from penstock.schemas.schema import InvalidSchemaError, Policy


class Comparison:
    def __init__(self, policy: Policy, limits: Limits) -> None:
        self._policy = policy
        self._limits = limits
        self._budget = Budget(limits, TOO_FAR_APART)
        self._pairs = ComparedPairs[Found](self._budget)
        self._expressions: dict[str, Expression | None] = {}

    def compare(self, old: SchemaNode, new: SchemaNode) -> list[Found]:
        """The differences, with paths below the new schema."""
        return self._pairs.compare(old, new, lambda: self._untolerated(old, new))

    def _untolerated(self, old: SchemaNode, new: SchemaNode) -> list[Found]:
        found = [each for each in self._compare_new(old, new) if not is_tolerated(each[0], self._policy)]
        return list(dict.fromkeys(found))[: self._limits.differences]

    def matches(self, pattern: str, name: str) -> bool:
        # As much work as some twenty comparisons, and more for long names.
        self._budget.spend(20 + len(name) // 50)
        if pattern not in self._expressions:
            self._budget.spend(1_000)
            try:
                self._expressions[pattern] = Expression(pattern)
            except InvalidSchemaError:
                # A registry with another dialect of expressions stored it.
                self._expressions[pattern] = None
        expression = self._expressions[pattern]
        return expression is not None and expression.matches(name)

    def _compare_new(self, old: SchemaNode, new: SchemaNode) -> Iterator[Found]:
        if old.is_false:
            return
        demands = old.demands()
        if not any(isinstance(demand, Plain) for demand in demands):
            # So that a new demand is reported by its keyword's name, and keywords that demand nothing are met.
            demands = [*demands, Plain((), None, {}, old)]
        for demand in new.demands():
            self._budget.spend()
            yield from self._unmet(demand, demands, old)

    def _unmet(self, new: Demand, demands: list[Demand], old: SchemaNode) -> list[Found]:
        """Nothing if the demand follows from one of the old ones, else the differences from the nearest of those."""
        nearest: list[Found] | None = None
        for demand in demands:
            found = self._compare_demands(demand, new)
            if not found:
                return []
            if nearest is None or (len(found), found[0][0] == "TYPE_CHANGED") < (
                len(nearest),
                nearest[0][0] == "TYPE_CHANGED",
            ):
                nearest = found
        if isinstance(new, Choice) and any(not self.compare(old, branch) for branch in new.branches):
            return []
        return nearest or [(_ADDED.get(type(new), "TYPE_CHANGED"), new.path)]

    def _compare_demands(self, old: Demand, new: Demand) -> list[Found]:
        self._budget.spend()
        if isinstance(old, Choice) and not isinstance(new, Choice):
            return self._compare_choice_with_other(old, new)
        if isinstance(new, Plain) and isinstance(old, Plain):
            return list(below(new.path, list(self._compare_plain(old, new))))
        if isinstance(new, Choice) and isinstance(old, Choice):
            return self._compare_choices(old, new)
        if isinstance(new, Values) and isinstance(old, Values):
            if old.identities <= new.identities:
                return []
            is_narrower = new.identities < old.identities
            return [("ENUM_ARRAY_NARROWED" if is_narrower else "ENUM_ARRAY_CHANGED", new.path)]
        if isinstance(new, Negation) and isinstance(old, Negation):
            # The old schema must forbid whatever the new schema forbids.
            return [("NOT_TYPE_EXTENDED", new.path)] if self.compare(new.node, old.node) else []
        if isinstance(new, Condition) and isinstance(old, Condition):
            return self._compare_conditions(old, new)
        return [("TYPE_CHANGED", new.path)]

    def _compare_plain(self, old: Plain, new: Plain) -> Iterator[Found]:
        if new.type is not None and old.type != new.type and (old.type, new.type) != ("integer", "number"):
            yield "TYPE_NARROWED" if (old.type, new.type) == ("number", "integer") else "TYPE_CHANGED", ()
            return
        if old.applies_to("number", "integer"):
            yield from compare_numbers(old, new)
        if old.applies_to("string"):
            yield from compare_strings(old, new)
        if old.applies_to("object"):
            yield from compare_objects(old, new, self)
        if old.applies_to("array"):
            yield from compare_arrays(old, new, self)

    def _compare_choice_with_other(self, old: Choice, new: Demand) -> list[Found]:
        """A choice fits any other demand if it has one branch, or if it is a list of types all of which fit."""
        if len(old.branches) > 1 and not old.of_types:
            return [("COMBINED_TYPE_CHANGED", new.path)]
        for branch in old.branches:
            if found := self._unmet(new, branch.demands(), branch):
                return found
        return []

    def _compare_choices(self, old: Choice, new: Choice) -> list[Found]:
        if new.exactly_one and not old.exactly_one and not old.of_types and len(old.branches) > 1:
            return [("COMBINED_TYPE_CHANGED", new.path)]

        def fits(before: int, after: int) -> bool:
            return not self.compare(old.branches[before], new.branches[after])

        # For the pairing, which may look at each pair again for each branch.
        self._budget.spend(len(old.branches) * len(new.branches))
        candidates = candidates_of(len(old.branches), len(new.branches), fits)
        if match_all(len(old.branches), candidates):
            return []
        is_narrower = len(new.branches) < len(old.branches)
        if new.of_types:
            return [("TYPE_NARROWED" if is_narrower else "TYPE_CHANGED", new.path)]
        return [("SUM_TYPE_NARROWED" if is_narrower else "COMBINED_TYPE_SUBSCHEMAS_CHANGED", new.path)]

    def _compare_conditions(self, old: Condition, new: Condition) -> list[Found]:
        if self.compare(old.test, new.test) or self.compare(new.test, old.test):
            return [("TYPE_CHANGED", new.path)]
        then = below((*new.path[:-1], "then"), self.compare(old.then, new.then))
        otherwise = below((*new.path[:-1], "else"), self.compare(old.otherwise, new.otherwise))
        return [*then, *otherwise]


# The difference for a demand of the new schema that the old schema has no counterpart of.
_ADDED = {
    Values: "ENUM_ARRAY_NARROWED",
    Negation: "NOT_TYPE_EXTENDED",
    Condition: "PRODUCT_TYPE_EXTENDED",
    Choice: "PRODUCT_TYPE_EXTENDED",
}
