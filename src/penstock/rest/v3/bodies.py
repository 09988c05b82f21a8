"""The request bodies of v3, checked during their decoding. Unknown fields are ignored."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field

from penstock.rest.number_texts import NumberText

_Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
_Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
# The protocol has no text of more than 32,767 bytes, and a character takes up to four.
_Text = Annotated[str, Meta(max_length=8_000)]


class ConfigEntry(Struct):
    name: _Text
    value: _Text | None = None


class NewTopic(Struct):
    topic_name: _Text
    partitions_count: _Int32 | None = None
    replication_factor: _Int16 | None = None
    # The replicas of each partition; JSON has names of text alone.
    replicas_assignments: dict[_Int32, list[_Int32]] | None = None
    configs: list[ConfigEntry] = field(default_factory=list)
    validate_only: bool = False


class PartitionCount(Struct):
    partitions_count: _Int32


class ConfigValue(Struct):
    value: _Text | None = None


class ConfigChange(Struct):
    name: _Text
    value: _Text | None = None
    operation: Literal["SET", "DELETE"] | None = None


class ConfigChanges(Struct):
    data: list[ConfigChange]
    validate_only: bool = False


class NewAcl(Struct):
    resource_type: _Text
    resource_name: _Text
    pattern_type: _Text
    principal: _Text
    host: _Text
    operation: _Text
    permission: _Text


class NewAcls(Struct):
    data: list[NewAcl]


# ------------------------------------------------------------------------------------------------ records


class NewHeader(Struct):
    name: _Text
    value: bytes | None = None  # base64


class NewData(Struct):
    """A key or a value. `data` does not change: JSON is passed on without its white space, with its numbers as
    written.
    """

    type: Literal["BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF"] | None = None
    subject: str | None = None
    subject_name_strategy: Literal["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"] | None = None
    schema_id: _Int32 | NumberText | None = None
    schema_version: _Int32 | NumberText | None = None
    schema: str | None = None
    data: Raw = field(default_factory=lambda: Raw(b"null"))


class NewRecordBody(Struct):
    partition_id: _Int32 | NumberText | None = None
    headers: list[NewHeader] | None = None
    key: NewData | None = None
    value: NewData | None = None
    timestamp: datetime.datetime | None = None


class BatchEntry(NewRecordBody):
    id: Any = None  # a text; the error names other types


class Batch(Struct):
    entries: list[BatchEntry]
