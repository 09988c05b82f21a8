"""The codec of an Avro schema."""

from __future__ import annotations

from typing import Any

from penstock.schemas.avro.schema import AvroSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.avro.from_json import Output, Writers
from penstock.serdes.avro.to_json import Cursor, Readers
from penstock.serdes.codec import MOST_BYTES
from penstock.serdes.errors import ChoiceError, PayloadError

_DEEP = "the value nests too deep"


class AvroCodec:
    schema_type = SchemaType.AVRO

    def __init__(self, schema: AvroSchema, *, is_lenient: bool) -> None:
        self._name = schema.name
        self._write = Writers(is_lenient=is_lenient).writer(schema.root)
        self._read = Readers().reader(schema.root)

    def record_name(self, message: str | None) -> str | None:
        return self._name

    def indexes(self, message: str | None) -> bytes:
        if message is not None:
            raise ChoiceError("only files of Protobuf have several messages to choose from")
        return b""

    def encode(self, value: Any, message: str | None, most_bytes: int = MOST_BYTES) -> bytes:
        out = Output(most_bytes)
        try:
            self._write(value, out)
        except RecursionError:
            raise PayloadError(_DEEP) from None
        return bytes(out)

    def decode(self, payload: bytes, before: bytes | None) -> Any:
        cursor = Cursor(payload)
        try:
            value = self._read(cursor)
        except IndexError:
            raise PayloadError("the payload ends too early, or was written with another schema") from None
        except RecursionError:
            raise PayloadError(_DEEP) from None
        if cursor.position != len(payload):
            raise PayloadError(f"{len(payload) - cursor.position} bytes are left behind the value")
        return value
