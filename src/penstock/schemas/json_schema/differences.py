"""The kinds of differences that are not compatible, in Confluent's names, and the sentences about them."""

from __future__ import annotations

from typing import TypeAlias

from penstock.schemas.json_schema.model import Path
from penstock.schemas.schema import Difference, Policy

Found: TypeAlias = "tuple[str, Path]"

# The policy LENIENT takes the properties that a schema leaves open for unused ones.
_LENIENT = frozenset(
    {
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    }
)


def is_tolerated(kind: str, policy: Policy) -> bool:
    return policy is Policy.LENIENT and kind in _LENIENT


# The end of a kind's name -> the statement about the reader's schema. The first that fits is taken.
_SENTENCES = (
    (
        "ADDED_TO_OPEN_CONTENT_MODEL",
        "The {reader} schema restricts '{path}', which data of the {writer} schema may have with any value",
    ),
    (
        "ADDED_TO_UNOPEN_CONTENT_MODEL",
        "The {reader} schema requires the property at path '{path}', which is missing in the {writer} schema",
    ),
    (
        "REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "The {reader} schema has a closed content model and lacks '{path}' of the {writer} schema",
    ),
    (
        "ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        (
            "The {reader} schema has '{path}', which the partially open content model of the {writer} schema does not "
            "cover"
        ),
    ),
    (
        "REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        (
            "The {reader} schema lacks '{path}' of the {writer} schema, and its partially open content model does not "
            "cover it"
        ),
    ),
    ("TYPE_CHANGED", "The type at path '{path}' in the {reader} schema is not the one in the {writer} schema"),
    (
        "SUBSCHEMAS_CHANGED",
        "The schemas combined at path '{path}' in the {reader} schema do not take those of the {writer} schema",
    ),
    ("_ADDED", "The {reader} schema demands something at path '{path}' that the {writer} schema does not"),
    ("_REMOVED", "What is open at path '{path}' in the {writer} schema is not open in the {reader} schema"),
    ("_INCREASED", "The bound at path '{path}' is higher in the {reader} schema than in the {writer} schema"),
    ("_DECREASED", "The bound at path '{path}' is lower in the {reader} schema than in the {writer} schema"),
    ("_NARROWED", "The {reader} schema takes less at path '{path}' than the {writer} schema"),
    ("_EXTENDED", "The {reader} schema demands more at path '{path}' than the {writer} schema"),
    ("", "The value at path '{path}' is different in the {reader} and in the {writer} schema"),
)


def describe(found: Found) -> Difference:
    kind, path = found
    pointer = "#/" + "/".join(path)
    sentence = next(text for ending, text in _SENTENCES if kind.endswith(ending))
    return Difference(kind, pointer, sentence, quote='"')
