"""The present contents of a topic that INSERT INTO writes to, which decide what may be written beside them.

A topic that holds nothing may be given a schema. Where records are JSON without a schema, further ones are so, too. A
schema for a topic with other records would make those unreadable, and JSON beside them would be so itself: the insert
is refused, unless the user has named a format.
"""

from __future__ import annotations

import enum

from penstock.pipelines.errors import SqlError, TableError
from penstock.pipelines.payloads.formats import PayloadKind
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.format_choice import EMPTY
from penstock.pipelines.tables.table import Table


class TopicContents(enum.Enum):
    NOTHING = enum.auto()  # or it does not matter
    JSON = enum.auto()
    SCHEMAS = enum.auto()  # records name schemas, and the topic has no subject
    OTHER = enum.auto()


def find_contents(catalog: Catalog, topic: str, *, is_missing_allowed: bool) -> TopicContents:
    """The contents of a topic whose values have no subject. Raises TableError."""
    try:
        table = catalog.table(topic)
    except TableError:
        if is_missing_allowed and topic not in catalog.topics(is_internal_wanted=True):
            return TopicContents.NOTHING
        raise
    return contents_of(table)


def contents_of(table: Table) -> TopicContents:
    if table.note == EMPTY:
        return TopicContents.NOTHING
    kinds = {PayloadKind.JSON: TopicContents.JSON, PayloadKind.REGISTRY: TopicContents.SCHEMAS}
    return kinds.get(table.value.kind, TopicContents.OTHER)


def check_can_be_json(topic: str, contents: TopicContents) -> None:
    """SqlError where rows beside those that are there could not be read."""
    if contents is TopicContents.SCHEMAS:
        raise SqlError(
            f"the records of {topic} name schemas, and the topic has no subject that says which one rows shall have",
            f"Name the subject: --subject {topic}=SUBJECT.",
        )
    if contents is TopicContents.OTHER:
        raise SqlError(
            f"{topic} holds records that are neither JSON objects nor have a schema; with one for new rows the others"
            " could not be read",
            "Select one column `value` of text or bytes, or name a format for the rows: --schema-format avro, json or"
            " protobuf.",
        )
