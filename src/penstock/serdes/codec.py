"""What every format does: values as JSON has them to payloads, and back."""

from __future__ import annotations

from typing import Any, Final, Protocol

from penstock.schemas.schema import SchemaType

# No record is larger than this.
MOST_BYTES: Final = 2**31 - 1


class Codec(Protocol):
    """Of one schema. It does not change, and several threads may use it. It never asks the registry."""

    @property
    def schema_type(self) -> SchemaType: ...

    def record_name(self, message: str | None) -> str | None:
        """The name that strategies use. `message` is one of several that a file of Protobuf has."""
        ...

    def indexes(self, message: str | None) -> bytes:
        """What stands between the id and the payload; empty for most formats. Raises ChoiceError."""
        ...

    def encode(self, value: Any, message: str | None, most_bytes: int = MOST_BYTES) -> bytes:
        """Without any frame. Raises PayloadError. A codec whose payloads can be much larger than their JSON stops with
        TooLargeError when there are more bytes than `most_bytes`; the others need not look.
        """
        ...

    def decode(self, payload: bytes, before: bytes | None) -> Any:
        """`before` has the message indexes where they are not in front of the payload. Raises PayloadError."""
        ...
