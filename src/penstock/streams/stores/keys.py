"""Keys of changelogs: JSON, in an order that bytes have.

Two keys are the same where their JSON means the same: white space and the way a character is written do not count; the
order of an object's fields does, and numbers count as they are written (1.10 is not 1.1). A windowed key, an object of
`key`, `start` and `end` alone, is a key and two times.

The order, which SQLite sees as bytes: null, false, true; then numbers by their value (exactly up to 64 bits, else as a
double tells them apart); then strings by code point; then arrays and objects by their JSON text. Windows of one key
follow its order by start, then end.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from penstock.streams.stores.errors import StoreError

# The times of a key without a window: less than any that Kafka has.
UNWINDOWED: Final = -(1 << 63)
_LEAST_MS, _LAST_MS = -(1 << 62), 1 << 62
_NULL, _FALSE, _TRUE, _NUMBER, _STRING, _ARRAY, _OBJECT = (bytes([tag]) for tag in range(1, 8))
# No byte of UTF-8 is as large: it stands behind every text with the same beginning.
_BEHIND = b"\xff"
_WINDOWED = {"key", "start", "end"}
# Larger doubles no longer tell integers apart.
_EXACT = 1 << 53
_HALF = 1 << 63

# Numbers as they are written: a key of 38 digits is no double.
body_decoder = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


class NotJsonError(ValueError):
    """The bytes are no JSON that can be a key."""


class StoredKey(NamedTuple):
    order: bytes
    start: int
    end: int
    text: bytes  # JSON, without its window

    @property
    def is_windowed(self) -> bool:
        return self.start != UNWINDOWED

    @property
    def whole_text(self) -> bytes:
        """As it is in the changelog."""
        return whole_text(self.text, self.start, self.end)


class Cursor(NamedTuple):
    """A place between rows: behind this one."""

    order: bytes
    start: int
    end: int

    def encode(self) -> str:
        packed = struct.pack(">qq", self.start, self.end) + self.order
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Raises StoreError."""
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            start, end = struct.unpack_from(">qq", packed)
        except (binascii.Error, struct.error, ValueError):
            raise StoreError(400, "`after` is not a place that `next` has told") from None
        return cls(packed[16:], start, end)


class Bounds(NamedTuple):
    """Of `order`: from, included, and up to, left out."""

    first: bytes
    behind: bytes


ALL: Final = Bounds(b"", _BEHIND)


def whole_text(text: bytes, start: int, end: int) -> bytes:
    return text if start == UNWINDOWED else b'{"key":%s,"start":%d,"end":%d}' % (text, start, end)


def parse_key(data: bytes) -> StoredKey:
    """The key of a record, or of a request. Raises NotJsonError."""
    try:
        return key_of(body_decoder.decode(data))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from None


def key_of(value: Any) -> StoredKey:
    """The key for a value of JSON's types. Raises NotJsonError."""
    start = end = UNWINDOWED
    if isinstance(value, dict) and value.keys() == _WINDOWED:
        given = value["start"], value["end"]
        if all(type(each) is int and _LEAST_MS < each < _LAST_MS for each in given):
            (start, end), value = given, value["key"]
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotJsonError(str(error)) from None
    return StoredKey(_order(value, text), start, end, text)


def candidates(text: str) -> Iterator[StoredKey]:
    """The possible keys of a URL's text, in the order in which they are tried: the string, then the JSON as it
    stands.
    """
    yield key_of(text)
    try:
        read = parse_key(text.encode())
    except NotJsonError:
        return
    yield read


def bounds_of(kind: bytes, first: str | None, last: str | None, prefix: str | None) -> Bounds:
    """The bounds from texts of a URL, for a store whose keys begin with the byte `kind`: both ends are included. Where
    keys are strings, a text is one as it stands; else it is JSON. Raises StoreError."""
    bounds = ALL
    if prefix is not None:
        if kind not in (_STRING, _ARRAY, _OBJECT):
            raise StoreError(400, "the keys of this store are no text: ask by `from` and `to`")
        beginning = kind + prefix.encode()
        bounds = Bounds(beginning, beginning + _BEHIND)
    if first is not None:
        bounds = Bounds(max(bounds.first, _bound(kind, "from", first)[0]), bounds.behind)
    if last is not None:
        bounds = Bounds(bounds.first, min(bounds.behind, _bound(kind, "to", last)[1]))
    return bounds


def _bound(kind: bytes, name: str, text: str) -> tuple[bytes, bytes]:
    """The first place that equals it, and the first one behind it."""
    if kind == _STRING:
        order = kind + text.encode()
    else:
        try:
            value = body_decoder.decode(text.encode())
            order = _place(value) if isinstance(value, int | Decimal) else key_of(value).order
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise StoreError(400, f"`{name}` is no JSON, and the keys of this store are no strings") from None
        if order[:1] == _NUMBER:
            return order, order + _BEHIND
    return order, order + b"\x00"


def _order(value: Any, text: bytes) -> bytes:
    match value:
        case None:
            return _NULL
        case bool():
            return _TRUE if value else _FALSE
        case str():
            return _STRING + value.encode()
        case int() | float() | Decimal():
            return _place(value) + text
        case dict():
            return _OBJECT + text
    return _ARRAY + text


def _place(number: float | Decimal) -> bytes:
    """Bytes that are ordered as numbers are: a double, and how far an integer is from it."""
    try:
        near = float(number) + 0.0  # of the two zeros only one
    except OverflowError:
        near = math.copysign(math.inf, number)
    bits: int = struct.unpack(">Q", struct.pack(">d", near))[0]
    bits = ~bits & (2 * _HALF - 1) if bits >= _HALF else bits | _HALF
    rest = int(number) - int(near) if math.isfinite(near) and abs(near) >= _EXACT else 0
    return _NUMBER + struct.pack(">QQ", bits, min(max(rest + _HALF, 0), 2 * _HALF - 1))
