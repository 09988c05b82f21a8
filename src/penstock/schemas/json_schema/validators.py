"""jsonschema-rs behind four names: checks of schemas and of expressions, matches of expressions, and checks of data
by a schema.

The library would fetch unknown schemas. Here it gets the metaschemas that it brings along, schemas as plain data that
it never follows, and a retriever that refuses.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from penstock.schemas.json_schema.drafts import METASCHEMAS, Draft, draft_of
from penstock.schemas.schema import InvalidSchemaError

# Bytes of a compiled expression (40 ms), and steps back of one match (0.2 ms).
_SIZE_LIMIT = 4 << 20
_BACKTRACK_LIMIT = 10_000
# Characters of one expression.
_LONGEST_EXPRESSION = 10_000

_VALIDATORS = {
    Draft.DRAFT_4: jsonschema_rs.Draft4Validator,
    Draft.DRAFT_6: jsonschema_rs.Draft6Validator,
    Draft.DRAFT_7: jsonschema_rs.Draft7Validator,
    Draft.DRAFT_2019_09: jsonschema_rs.Draft201909Validator,
    Draft.DRAFT_2020_12: jsonschema_rs.Draft202012Validator,
}


def check_against_metaschema(text: str, draft: Draft) -> None:
    document = json.loads(text)
    try:
        _metaschema(draft).validate(document)
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{part}" for part in error.instance_path)
        is_infinite = _is_infinite(document, error.instance_path)
        message = "A number is too large" if is_infinite else error.message[:1000]
        raise InvalidSchemaError(f"{message} at path '#{path}'") from None
    except ValueError as error:
        raise InvalidSchemaError(str(error)) from None


def _is_infinite(document: Any, path: Iterable[str | int]) -> bool:
    """Whether the number at the place is too large for the library, which takes it for null."""
    for part in path:
        document = document[part]
    return isinstance(document, float) and math.isinf(document)


# One for each draft, five in all.
@cache
def _metaschema(draft: Draft) -> jsonschema_rs.Validator:
    # Without formats: regular expressions are checked where they are used, and a malformed address does no harm.
    return _VALIDATORS[draft]({"$ref": METASCHEMAS[draft]}, validate_formats=False, retriever=_refuse)


def _refuse(uri: str) -> None:
    raise ValueError(f"{uri} is not fetched")


# `{2}`, `{2,}` and `{2,5}`: counts make an expression large.
_COUNTS = re.compile(r"\{\d+(?:,\d*)?\}")


def has_counts(pattern: str) -> bool:
    return _COUNTS.search(pattern) is not None


def check_form(pattern: str) -> None:
    """Refuses a text that is no expression. Only the form is checked, without counts, so that it takes no time."""
    _compiled(_COUNTS.sub("*", pattern))


def check_expression(pattern: str) -> None:
    """Refuses a text that is no expression, or one too large to use: with counts this takes up to 40 ms."""
    check_form(pattern)
    _compiled(pattern)


class Expression:
    """A regular expression of a schema, in the dialect of ECMA 262. One that explodes counts as not matching."""

    def __init__(self, pattern: str) -> None:
        self._validator = _compiled(pattern)

    def matches(self, text: str) -> bool:
        return self._validator.is_valid(text)


class InstanceValidator:
    """Checks whether data fits a schema. Ignores formats, as Python's own library does."""

    def __init__(self, text: str, others: Mapping[str, str]) -> None:
        """`others` are the schemas that it may refer to, by their names. Raises InvalidSchemaError."""
        document = json.loads(text)
        options = jsonschema_rs.FancyRegexOptions(size_limit=_SIZE_LIMIT, backtrack_limit=_BACKTRACK_LIMIT)
        try:
            self._validator = _VALIDATORS[draft_of(document)](
                document, validate_formats=False, retriever=_Others(others), pattern_options=options
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            message = getattr(error, "message", None) or str(error)
            raise InvalidSchemaError(f"The schema cannot be used to check data: {message[:1000]}") from None

    def fits(self, value: Any) -> bool:
        """ValueError if the data is no JSON."""
        return self._validator.is_valid(value)

    def refusal(self, value: Any) -> tuple[str, tuple[str | int, ...]] | None:
        """The first value that does not fit, with its path; None if the data fits. Takes far longer than `fits` where
        branches have branches: the library describes them all.
        """
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return error.message[:1000], tuple(error.instance_path)
        return None


# What the library puts in front of references in a schema without an identifier.
_NO_BASE = "json-schema:///"


class _Others:
    """Finds the schemas that a schema refers to, by their names in the registry or by their own."""

    def __init__(self, others: Mapping[str, str]) -> None:
        self._documents = {name: json.loads(text) for name, text in others.items()}
        for document in list(self._documents.values()):
            identifier = (document.get("$id") or document.get("id")) if isinstance(document, dict) else None
            if isinstance(identifier, str):
                self._documents.setdefault(identifier.rstrip("#"), document)

    def __call__(self, uri: str) -> Any:
        for name in (uri, uri.removeprefix(_NO_BASE), unquote(uri.removeprefix(_NO_BASE))):
            if name in self._documents:
                return self._documents[name]
        # Relative to the identifier of the schema that names it.
        relative = [name for name in self._documents if uri.endswith("/" + name)]
        if not relative:
            _refuse(uri)
        return self._documents[max(relative, key=len)]


def _compiled(pattern: str) -> jsonschema_rs.Validator:
    if len(pattern) > _LONGEST_EXPRESSION:
        raise InvalidSchemaError(f"A regular expression has more than {_LONGEST_EXPRESSION} characters")
    options = jsonschema_rs.FancyRegexOptions(size_limit=_SIZE_LIMIT, backtrack_limit=_BACKTRACK_LIMIT)
    try:
        return jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        raise InvalidSchemaError(f"Invalid or too large regular expression: {pattern[:200]!r}") from None
