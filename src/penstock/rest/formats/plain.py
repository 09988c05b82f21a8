"""The formats without a schema: base64, JSON as it is, and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from penstock.rest.errors import INVALID_PAYLOAD, RestError
from penstock.rest.formats.formats import MOST_BYTES, Format, PayloadWriter

_NULL: Final = b"null"
_read_base64 = msgspec.json.Decoder(bytes).decode
_read_text = msgspec.json.Decoder(str).decode
_read_raw = msgspec.json.Decoder(msgspec.Raw).decode


def compact(text: bytes) -> bytes:
    """JSON without the spaces between its tokens. Raises RestError 400."""
    if not text.isascii():  # msgspec does not check texts that it need not decode
        try:
            text.decode()
        except UnicodeDecodeError:
            raise RestError(400, "the body is no JSON: a text in it is no UTF-8") from None
    return msgspec.json.format(text, indent=-1)


class BinaryWriter:
    schema = None
    is_draft = False

    def write(self, text: bytes, most_bytes: int = MOST_BYTES) -> bytes | None:
        if text == _NULL:
            return None
        try:
            return _read_base64(text)
        except msgspec.DecodeError:
            raise RestError(INVALID_PAYLOAD, "the format is binary, so keys and values are texts in base64") from None


class JsonWriter:
    """Written without the spaces between its tokens; numbers and the order of keys do not change."""

    schema = None
    is_draft = False

    def write(self, text: bytes, most_bytes: int = MOST_BYTES) -> bytes | None:
        return None if text == _NULL else compact(text)


class StringWriter:
    schema = None
    is_draft = False

    def write(self, text: bytes, most_bytes: int = MOST_BYTES) -> bytes | None:
        if text == _NULL:
            return None
        try:
            return _read_text(text).encode()
        except (msgspec.DecodeError, UnicodeError):
            raise RestError(INVALID_PAYLOAD, "the type is STRING, so the data is a text") from None


def _read_json(payload: bytes) -> Any:
    """Unchanged: its numbers may be larger than any that this program computes with."""
    try:
        payload.decode()
        return _read_raw(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return RestError(INVALID_PAYLOAD, "the record is no JSON: read the topic with the format binary")
    except RecursionError:
        return RestError(INVALID_PAYLOAD, "the record nests too deep: read the topic with the format binary")


PLAIN_WRITERS: Final[Mapping[Format, PayloadWriter]] = {
    Format.BINARY: BinaryWriter(),
    Format.JSON: JsonWriter(),
    Format.STRING: StringWriter(),
}
# msgspec writes bytes as base64.
PLAIN_READERS: Final[Mapping[Format, Callable[[bytes], Any]]] = {
    Format.BINARY: lambda payload: payload,
    Format.JSON: _read_json,
}
