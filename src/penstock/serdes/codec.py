"""The interface of every format: from values as JSON has them to payloads, and back."""

from __future__ import annotations

from typing import Any, Final, Protocol

from penstock.schemas.schema import SchemaType

# No record is larger than this.
MOST_BYTES: Final = 2**31 - 1


class Codec(Protocol):
    """The codec of one schema. It does not change, and several threads may use it. It never calls the registry."""

    @property
    def schema_type(self) -> SchemaType: ...

    def record_name(self, message: str | None) -> str | None:
        """The name that strategies use. `message` is one of several that a file of Protobuf has."""
        ...

    def indexes(self, message: str | None) -> bytes:
        """The bytes between the id and the payload; empty for most formats. Raises ChoiceError."""
        ...

    def encode(self, value: Any, message: str | None, most_bytes: int = MOST_BYTES) -> bytes:
        """The payload without any frame. Raises PayloadError. A codec whose payloads can be much larger than their JSON
        stops with TooLargeError at more bytes than `most_bytes`; the others need no check.
        """
        ...

    def decode(self, payload: bytes, before: bytes | None) -> Any:
        """`before` has the message indexes where they are not in front of the payload. Raises PayloadError."""
        ...
