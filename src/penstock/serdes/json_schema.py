"""The codec of a JSON schema: the payload is the JSON text of a value that fits the schema.

The codec checks values when it writes them. It reads payloads of other writers unchecked, unless the caller wants that
check too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.json_schema.validators import InstanceValidator
from penstock.schemas.schema import SchemaType
from penstock.serdes.codec import MOST_BYTES
from penstock.serdes.errors import ChoiceError, PayloadError

# Above so many visits of one place the library does not look for the place of an error: a visit takes a tenth of a ms.
_MOST_DESCRIBED = 500


class JsonSchemaCodec:
    schema_type = SchemaType.JSON

    def __init__(self, schema: JsonSchema, text: str, others: Mapping[str, str], *, checks_read: bool) -> None:
        """Raises InvalidSchemaError."""
        self._name = schema.name
        self._validator = InstanceValidator(text, others)
        self._effort = schema.effort()
        self._checks_read = checks_read

    def record_name(self, message: str | None) -> str | None:
        return self._name

    def indexes(self, message: str | None) -> bytes:
        if message is not None:
            raise ChoiceError("only files of Protobuf have several messages to choose from")
        return b""

    def encode(self, value: Any, message: str | None, most_bytes: int = MOST_BYTES) -> bytes:
        self._check(value)
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (ValueError, TypeError, RecursionError, UnicodeEncodeError):
            raise PayloadError("the value is no JSON") from None

    def decode(self, payload: bytes, before: bytes | None) -> Any:
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):
            raise PayloadError("the payload is no JSON") from None
        if self._checks_read:
            self._check(value)
        return value

    def _check(self, value: Any) -> None:
        deepest = self._effort.deepest
        try:
            if deepest is not None and nests_deeper(value, deepest):
                raise PayloadError(f"the value nests more than {deepest} deep, and the schema branches at each level")
            if self._validator.fits(value):
                return
            refusal = self._validator.refusal(value) if self._effort.visits <= _MOST_DESCRIBED else None
        except (ValueError, TypeError, RecursionError):
            raise PayloadError("the value is no JSON") from None
        raise PayloadError(*(refusal or ("the value does not fit the schema",)))


def nests_deeper(value: Any, levels: int) -> bool:
    """Without recursion. A text or a number nests 0 deep."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
