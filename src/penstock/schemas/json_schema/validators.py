"""jsonschema-rs behind three functions: what is a schema of a draft, what is an expression, and what matches it.

The library would fetch what it does not know. Here it gets the metaschemas that it brings along, schemas as plain data
that it never follows, and a retriever that refuses.
"""

from __future__ import annotations

import json
import re
from functools import cache

import jsonschema_rs

from penstock.schemas.json_schema.drafts import METASCHEMAS, Draft
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
        raise InvalidSchemaError(f"{error.message[:1000]} at path '#{path}'") from None
    except ValueError as error:
        raise InvalidSchemaError(str(error)) from None


# One for each draft, five in all.
@cache
def _metaschema(draft: Draft) -> jsonschema_rs.Validator:
    # Without formats: regular expressions are looked at where they are used, and odd addresses hurt nobody.
    return _VALIDATORS[draft]({"$ref": METASCHEMAS[draft]}, validate_formats=False, retriever=_refuse)


def _refuse(uri: str) -> None:
    raise ValueError(f"{uri} is not fetched")


# `{2}`, `{2,}` and `{2,5}`: what makes an expression large.
_COUNTS = re.compile(r"\{\d+(?:,\d*)?\}")


def check_expression(pattern: str) -> None:
    """Refuses what is no expression. Only the form is looked at, without counts, so that it takes no time."""
    _compiled(_COUNTS.sub("*", pattern))


class Expression:
    """A regular expression of a schema, in the dialect of ECMA 262. What explodes counts as not matching."""

    def __init__(self, pattern: str) -> None:
        self._validator = _compiled(pattern)

    def matches(self, text: str) -> bool:
        return self._validator.is_valid(text)


def _compiled(pattern: str) -> jsonschema_rs.Validator:
    if len(pattern) > _LONGEST_EXPRESSION:
        raise InvalidSchemaError(f"A regular expression has more than {_LONGEST_EXPRESSION} characters")
    options = jsonschema_rs.FancyRegexOptions(size_limit=_SIZE_LIMIT, backtrack_limit=_BACKTRACK_LIMIT)
    try:
        return jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        raise InvalidSchemaError(f"Invalid or too large regular expression: {pattern[:200]!r}") from None
