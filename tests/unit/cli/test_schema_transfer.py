"""Exported schemas come in an order that a registry can take, and a damaged file is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.plans.schema_transfer import Transfer, in_order, read_transfer


def schema(subject: str, version: int, *references: tuple[str, int]) -> dict[str, Any]:
    named = [{"name": to, "subject": to, "version": number} for to, number in references]
    return {"subject": subject, "version": version, "id": 1, "schema": "x", "references": named}


def order(*schemas: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["subject"], each["version"]) for each in in_order(schemas)]


def test_a_schema_comes_after_all_that_it_refers_to() -> None:
    schemas = [schema("a", 1, ("c", 1)), schema("a", 2), schema("b", 1, ("a", 1)), schema("c", 1, ("d", 2))]
    assert order(*schemas, schema("d", 2)) == [("d", 2), ("c", 1), ("a", 1), ("a", 2), ("b", 1)]


def test_schemas_that_refer_to_each_other_or_to_strangers_are_listed_once() -> None:
    assert order(schema("a", 1, ("b", 1)), schema("b", 1, ("a", 1), ("x", 9))) == [("b", 1), ("a", 1)]
    assert order(schema("a", 1, ("a", 1))) == [("a", 1)]


def test_what_was_written_is_read() -> None:
    transfer = Transfer([schema("a", 1)], {"": {"compatibilityLevel": "FULL"}, "a": {"compatibilityLevel": "NONE"}})
    assert read_transfer(transfer.to_json()) == transfer


def test_subjects_move_into_a_context_when_they_have_none() -> None:
    moved = Transfer([schema("a", 1), schema(":.c:b", 1)], {"": {}, "a": {}}).into_context("copy")
    assert moved.subjects == [":.copy:a", ":.c:b"]
    assert list(moved.configs) == ["", ":.copy:a"]
    with pytest.raises(UsageError, match="no name of a context"):
        moved.into_context(":.x:")


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"format": "other"},
        {"format": "penstock-schemas", "format_version": 2},
        {"format": "penstock-schemas", "format_version": 1},
        {"format": "penstock-schemas", "format_version": 1, "schemas": [5]},
        {"format": "penstock-schemas", "format_version": 1, "schemas": [{**schema("a", 1), "id": "1"}]},
        {"format": "penstock-schemas", "format_version": 1, "schemas": [{**schema("a", 1), "references": [1]}]},
    ],
)
def test_a_file_is_refused_when_it_is_none_of_ours(document: Any) -> None:
    with pytest.raises(UsageError):
        read_transfer(document)
