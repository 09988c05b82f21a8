"""Bodies of version 2, as msgspec reads and writes them. The OpenAPI document is made from these classes."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Raw, Struct, field

from penstock.rest.number_texts import NumberText

# Bounds of Kafka's own types: no request could carry a value beyond them.
Partition: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
SchemaId: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)] | NumberText
# A name of a topic has 249 characters; brokers refuse longer names.
Topic: TypeAlias = Annotated[str, Meta(min_length=1, max_length=32_767)]

NULL = Raw(b"null")


# ---------------------------------------------------------------------------------------------------- produce


class ProduceRecord(Struct):
    key: Raw = NULL
    value: Raw = NULL
    partition: Partition | NumberText | None = None


class BinaryRecord(Struct):
    """msgspec reads base64 by itself."""

    key: bytes | None = None
    value: bytes | None = None
    partition: Partition | NumberText | None = None


class Schemas(Struct, kw_only=True):
    key_schema: str | None = None
    key_schema_id: SchemaId | None = None
    value_schema: str | None = None
    value_schema_id: SchemaId | None = None


class ProduceRequest(Schemas, kw_only=True):
    records: list[ProduceRecord]


class BinaryProduceRequest(Schemas, kw_only=True):
    records: list[BinaryRecord]


class AnyRecord(Struct):
    """`Record` as a caller sees it, for the document."""

    key: Any = None
    value: Any = None
    partition: Partition | NumberText | None = None


class ProduceBody(Schemas, kw_only=True):
    records: Annotated[list[AnyRecord], Meta(min_length=1)]


class PartitionOffset(Struct):
    partition: int | None = None
    offset: int | None = None
    error_code: int | None = None
    error: str | None = None


class ProduceResponse(Struct):
    offsets: list[PartitionOffset]
    key_schema_id: int | None = None
    value_schema_id: int | None = None


# ---------------------------------------------------------------------------------------------------- metadata


class BrokerList(Struct):
    brokers: list[int]


class Replica(Struct):
    broker: int
    leader: bool
    in_sync: bool


class PartitionMetadata(Struct):
    partition: int
    leader: int
    replicas: list[Replica]


class TopicMetadata(Struct):
    name: str
    configs: dict[str, str | None]
    partitions: list[PartitionMetadata]


class Offsets(Struct):
    beginning_offset: int
    end_offset: int


# ---------------------------------------------------------------------------------------------------- consumers


class CreateInstance(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=249)] | None = None
    format: str | None = None
    auto_offset_reset: str | None = field(default=None, name="auto.offset.reset")
    # Confluent takes numbers and booleans as texts, too.
    auto_commit_enable: str | bool | None = field(default=None, name="auto.commit.enable")
    fetch_min_bytes: str | int | None = field(default=None, name="fetch.min.bytes")
    request_timeout_ms: str | int | None = field(default=None, name="consumer.request.timeout.ms")


class CreatedInstance(Struct):
    instance_id: str
    base_uri: str


class SubscribeRequest(Struct):
    topics: Annotated[list[Topic], Meta(max_length=10_000)] | None = None
    topic_pattern: Annotated[str, Meta(max_length=4_096)] | None = None


class SubscribedTopics(Struct):
    topics: list[str]


class TopicPartitionBody(Struct):
    topic: Topic
    partition: Partition


class PartitionList(Struct):
    partitions: Annotated[list[TopicPartitionBody], Meta(max_length=100_000)]


class OffsetBody(Struct):
    topic: Topic
    partition: Partition
    offset: Offset
    metadata: Annotated[str, Meta(max_length=32_767)] | None = None


class OffsetList(Struct):
    offsets: Annotated[list[OffsetBody], Meta(max_length=100_000)]


class ConsumedRecord(Struct):
    topic: str
    key: Any
    value: Any
    partition: int
    offset: int
