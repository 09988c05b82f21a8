from __future__ import annotations

from penstock.protocol.fields import UNBOUNDED, Field
from penstock.protocol.messages.metadata import MetadataRequest

FIELD = Field("leader", "int32", (2, 5), nullable=(3, UNBOUNDED), tag=0, tagged=(4, 4), default=-1)


def test_row_says_in_which_versions_the_field_is_there_null_or_tagged() -> None:
    assert [version for version in range(8) if FIELD.is_in(version)] == [2, 3, 4, 5]
    assert [version for version in range(8) if FIELD.is_nullable(version)] == [3, 4, 5, 6, 7]
    assert [version for version in range(8) if FIELD.is_tagged(version)] == [4]


def test_row_is_never_null_or_tagged_when_it_names_no_such_versions() -> None:
    field = Field("leader", "int32", (0, UNBOUNDED))
    assert not any(field.is_nullable(version) or field.is_tagged(version) for version in range(20))


def test_message_has_a_row_for_each_slot_when_it_was_generated() -> None:
    assert tuple(field.attribute for field in MetadataRequest.FIELDS) == MetadataRequest.__slots__
