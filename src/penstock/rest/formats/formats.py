"""The embedded formats, and how a request names a schema."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, Protocol

from penstock.protocol.records import Headers

# No payload is larger than this.
MOST_BYTES: Final = 2**31 - 1
# More than this is encoded and decoded in a thread. With a schema each hundred bytes take some microseconds, so this
# much is a millisecond or two.
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
    """How a request names the schema of its keys or of its values. At most one of id, text and version is given. With
    none, the latest version of the subject counts, where v3 allows that.
    """

    schema_id: int | None = None
    text: str | None = None
    version: int | None = None
    subject: str | None = None  # instead of what the strategy says
    strategy: str | None = None  # TOPIC_NAME (default), RECORD_NAME, TOPIC_RECORD_NAME
    may_be_latest: bool = False


class UsedSchema(NamedTuple):
    """What v3 tells about a record that was written, and v2 about all of them."""

    schema_id: int
    subject: str | None = None
    version: int | None = None


class Incoming(NamedTuple):
    """The key or the value of a record that was read, and what may tell its schema."""

    data: bytes | None
    topic: str = ""
    headers: Headers = ()


class WriteRight(Protocol):
    """Of the caller for whom a schema may be registered, see `rest.rights`."""

    @property
    def may_choose_subject(self) -> bool: ...

    async def check_write(self) -> None:
        """Raises RestError where the caller may not write the topic."""
        ...


class Writer(Protocol):
    """Of the keys, or of the values, of one request. Made once, asked for each record; does not wait."""

    @property
    def schema(self) -> UsedSchema | None: ...

    def write(self, text: bytes, most_bytes: int = MOST_BYTES) -> bytes | None:
        """`text` is the JSON that stands in the body; `null` is no key, and a tombstone for a value. Raises RestError
        where the text does not fit the format or its schema, and with 413 where a payload that can be larger than its
        text has more bytes than `most_bytes`.
        """
        ...
