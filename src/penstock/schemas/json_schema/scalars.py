"""Demands on numbers and strings: each is one keyword, which may become wider or go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal, DecimalException

from penstock.schemas.json_schema.differences import Found
from penstock.schemas.json_schema.model import Plain
from penstock.schemas.json_text import Json, Number

# Enough digits for any multiple in practice; where they do not suffice, the multiple counts as a different one.
_CONTEXT = Context(prec=200)


def number(value: Json) -> Decimal | None:
    """Exactly the number in the schema. None: it is no number, or out of all bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return Decimal(value.text) if isinstance(value, Number) else Decimal(value)
    except DecimalException:
        return None


def compare_bound(
    old: Mapping[str, Json], new: Mapping[str, Json], keyword: str, kind: str, *, lower: bool
) -> Iterator[Found]:
    """A lower bound may fall, an upper one may rise, and either may go."""
    after = number(new.get(keyword))
    if after is None:
        return
    before = number(old.get(keyword))
    if before is None:
        yield f"{kind}_ADDED", (keyword,)
    elif lower and after > before:
        yield f"{kind}_INCREASED", (keyword,)
    elif not lower and after < before:
        yield f"{kind}_DECREASED", (keyword,)


def compare_numbers(old: Plain, new: Plain) -> Iterator[Found]:
    before, after = _with_numeric_exclusives(old.keywords), _with_numeric_exclusives(new.keywords)
    yield from compare_bound(before, after, "maximum", "MAXIMUM", lower=False)
    yield from compare_bound(before, after, "minimum", "MINIMUM", lower=True)
    yield from compare_bound(before, after, "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", lower=False)
    yield from compare_bound(before, after, "exclusiveMinimum", "EXCLUSIVE_MINIMUM", lower=True)
    yield from _compare_multiples(number(before.get("multipleOf")), number(after.get("multipleOf")))


def _with_numeric_exclusives(keywords: Mapping[str, Json]) -> Mapping[str, Json]:
    """In draft 4 a flag makes a bound exclusive; later drafts have a number of its own for it."""
    changed = dict(keywords)
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = keywords.get(exclusive)
        if isinstance(flag, bool):
            del changed[exclusive]
            if flag and bound in changed:
                changed[exclusive] = changed.pop(bound)
    return changed


def _compare_multiples(before: Decimal | None, after: Decimal | None) -> Iterator[Found]:
    path = ("multipleOf",)
    if after is None or before == after:
        return
    if before is None:
        yield "MULTIPLE_OF_ADDED", path
    elif _divides(before, after):
        yield "MULTIPLE_OF_EXPANDED", path
    elif not _divides(after, before):
        yield "MULTIPLE_OF_CHANGED", path


def _divides(divisor: Decimal, dividend: Decimal) -> bool:
    try:
        return _CONTEXT.remainder(dividend, divisor) == 0
    except DecimalException:
        return False


def compare_strings(old: Plain, new: Plain) -> Iterator[Found]:
    yield from compare_bound(old.keywords, new.keywords, "maxLength", "MAX_LENGTH", lower=False)
    yield from compare_bound(old.keywords, new.keywords, "minLength", "MIN_LENGTH", lower=True)
    pattern = new.keywords.get("pattern")
    if pattern is not None and pattern != old.keywords.get("pattern"):
        yield "PATTERN_CHANGED" if "pattern" in old.keywords else "PATTERN_ADDED", ("pattern",)
