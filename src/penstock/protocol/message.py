"""What every generated message class is: slots, a table of fields, and its versions."""

from __future__ import annotations

from typing import ClassVar, Protocol

from penstock.core.types import ZERO_TOPIC_ID, Buffer
from penstock.protocol.fields import UNBOUNDED, Field

__all__ = ["UNBOUNDED", "ZERO_UUID", "Buffer", "Chunk", "FieldRow", "FileChunk", "Message"]

ZERO_UUID = ZERO_TOPIC_ID
FieldRow = Field


class FileChunk(Protocol):
    """Bytes that stay in their file until a socket takes them."""

    def __len__(self) -> int: ...

    def read(self, start: int, size: int) -> bytes: ...

    def send(self, socket_fd: int, start: int) -> int: ...


Chunk = Buffer | FileChunk


# Fields that let somebody log in, or guess a password. Whoever prints a message must not print them.
_SECRETS = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})


class Message:
    __slots__ = ()
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = -1
    FLEXIBLE_FROM: ClassVar[int] = UNBOUNDED
    RESPONSE: ClassVar[type[Message]]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, field.attribute) == getattr(other, field.attribute) for field in self.FIELDS
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{field.attribute}={self._shown(field.attribute)}" for field in self.FIELDS)
        return f"{type(self).__name__}({fields})"

    def _shown(self, attribute: str) -> str:
        return "(hidden)" if attribute in _SECRETS else repr(getattr(self, attribute))
