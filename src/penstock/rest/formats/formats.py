"""The embedded formats, and the choice of a schema in a request."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, Protocol

from penstock.protocol.records import Headers

# The size limit of a payload.
MOST_BYTES: Final = 2**31 - 1
# A thread encodes and decodes more than this. With a schema each hundred bytes take some microseconds, so this much is
# a millisecond or two.
LARGE_BYTES: Final = 64 * 1024


class Format(enum.StrEnum):
    BINARY = "binary"  # base64
    JSON = "json"
    STRING = "string"  # v3 alone
    AVRO = "avro"
    JSONSCHEMA = "jsonschema"
    PROTOBUF = "protobuf"

    @property
    def has_schema(self) -> bool:
        return self in _WITH_SCHEMA


_WITH_SCHEMA = frozenset({Format.AVRO, Format.JSONSCHEMA, Format.PROTOBUF})


class SchemaChoice(NamedTuple):
    """The choice of the schema for the keys or the values of a request. At most one of id, text and version is given.
    With none, the latest version of the subject counts, where v3 allows that.
    """

    schema_id: int | None = None
    text: str | None = None
    version: int | None = None
    subject: str | None = None  # replaces the strategy's subject
    strategy: str | None = None  # TOPIC_NAME (default), RECORD_NAME, TOPIC_RECORD_NAME
    may_be_latest: bool = False
    # Does not register a text that the registry may not have yet: the write only checks whether the data fits it.
    is_draft: bool = False


class UsedSchema(NamedTuple):
    """The schema of a written record in v3's answer, or of all records in v2's."""

    schema_id: int
    subject: str | None = None
    version: int | None = None


class Incoming(NamedTuple):
    """The key or the value of a record from a topic, with the hints to its schema."""

    data: bytes | None
    topic: str = ""
    headers: Headers = ()


class WriteRight(Protocol):
    """The caller's right to register a schema, see `rest.rights`."""

    @property
    def may_choose_subject(self) -> bool: ...

    async def check_write(self) -> None:
        """Raises RestError where the caller may not write the topic."""
        ...


class PayloadWriter(Protocol):
    """Writes the keys, or the values, of one request. Made once, called for each record; does not wait."""

    @property
    def schema(self) -> UsedSchema | None: ...

    @property
    def is_draft(self) -> bool: ...

    def write(self, text: bytes, most_bytes: int = MOST_BYTES) -> bytes | None:
        """`text` is the JSON of the body; `null` is no key, and a tombstone for a value. Raises RestError where the
        text does not fit the format or its schema, and with 413 where a payload that can be larger than its text has
        more bytes than `most_bytes`.
        """
        ...
