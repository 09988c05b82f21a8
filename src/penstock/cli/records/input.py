"""Records as people and programs type them: lines of text, or JSON lines as `consume --json` writes them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Container, Iterator
from typing import Any, BinaryIO, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.times import parse_time_ms

Headers = tuple[tuple[str, bytes | None], ...]

# One read; a record longer than this only takes several of them.
_CHUNK_SIZE = 256 * 1024


class InputRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


class TextFormat(NamedTuple):
    """How a line of text is taken apart."""

    key: bytes | None = None
    key_separator: bytes | None = None
    null_marker: bytes | None = None
    headers: Headers = ()

    def parse(self, line: bytes) -> InputRecord:
        if self.key_separator is None:
            return InputRecord(self.key, self._null(line), self.headers)
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            shown = line[:60].decode("utf-8", "replace")
            raise UsageError(
                f"no key separator in {shown!r}", "Separate key and value, or choose another --key-separator."
            )
        return InputRecord(self._null(key), self._null(value), self.headers)

    def _null(self, text: bytes) -> bytes | None:
        return None if text == self.null_marker else text


def parse_json_record(line: bytes, now_ms: int, by_schema: Container[str] = ()) -> InputRecord:
    """An object with key, value, headers, partition, timestamp; `key_base64`, `value_base64` hold what is not text.

    A key or value that is written by a schema stays JSON, also where it is a text.
    """
    try:
        document = json.loads(line)
    except ValueError as error:
        raise UsageError(f"not a line of JSON: {error}", "Each line must be one JSON object.") from None
    if not isinstance(document, dict):
        raise UsageError("a JSON record must be an object", 'Write it like {"key": "k", "value": "v"}.')
    return InputRecord(
        _payload(document, "key", stays_json="key" in by_schema),
        _payload(document, "value", stays_json="value" in by_schema),
        _headers(document.get("headers")),
        _integer(document, "partition"),
        _timestamp(document.get("timestamp"), now_ms),
    )


def _payload(document: dict[str, Any], name: str, *, stays_json: bool = False) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise UsageError(f"{name}_base64 is not base64") from None
    content = document.get(name)
    if content is None:
        return None
    if isinstance(content, str) and not stays_json:
        return content.encode("utf-8", "surrogatepass")
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _headers(content: Any) -> Headers:
    if content is None:
        return ()
    if isinstance(content, dict):
        return tuple((name, _payload({"value": value}, "value")) for name, value in content.items())
    if isinstance(content, list) and all(
        isinstance(item, dict) and isinstance(item.get("key"), str) for item in content
    ):
        return tuple((item["key"], _payload(item, "value")) for item in content)
    raise UsageError("headers must be an object or a list of objects", 'Write [{"key": "name", "value": "text"}].')


def _integer(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UsageError(f"{name} must be a whole number, not {value!r}")


def _timestamp(value: Any, now_ms: int) -> int | None:
    if isinstance(value, str):
        return parse_time_ms(value, now_ms)
    timestamp_ms = _integer({"timestamp": value}, "timestamp")
    return None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms


def split_stream(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """The stream's pieces between delimiters; what follows the last delimiter counts if it is not empty."""
    if delimiter == b"\n":
        for line in stream:  # line by line, so that a person's record goes out when they press enter
            yield line[:-1] if line.endswith(b"\n") else line
        return
    rest = b""
    while chunk := stream.read(_CHUNK_SIZE):
        *pieces, rest = (rest + chunk).split(delimiter)
        yield from pieces
    if rest:
        yield rest
