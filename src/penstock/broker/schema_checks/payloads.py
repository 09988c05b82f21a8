"""Reads the schemas that the records of a batch name. Opens the batch, and decides nothing about schemas.

A key or a value that is null passes. All others name a schema: by its id in front of the payload, or by the header
`__key_schema_id` or `__value_schema_id`, which has precedence (`serdes.framing`).
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import Buffer
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import Record, iterate_records
from penstock.serdes.errors import FramingError
from penstock.serdes.framing import Frame, read_frame
from penstock.serdes.subjects import Strategy, strategy_named

# The limit for one batch, uncompressed. Producers fill a batch with less than a megabyte before they compress it.
MOST_BYTES = 32 * 1024 * 1024
# The kept data of a batch take some 100 bytes per record during the question to the registry.
_MOST_RECORDS = 100_000
_MOST_SCHEMAS = 1_000
# The bytes behind the id, where Protobuf names a message of a file. No real file nests as deep as this allows.
_HEAD_BYTES = 32
# The number of bad records in the answer to the client.
_MOST_ERRORS = 1_000

SchemaName = int | str  # an id, or a guid


class Side(NamedTuple):
    """Keys or values of one topic, and the strategy for the subject of their schemas."""

    topic: str
    is_key: bool
    strategy: Strategy

    @property
    def word(self) -> str:
        return "key" if self.is_key else "value"


class PayloadHead(NamedTuple):
    record: int  # in the batch
    head: bytes  # of the payload, where the strategy asks for the record's name


class Claims(NamedTuple):
    """The schemas that a batch names, and the errors of records that name none."""

    by_schema: dict[tuple[Side, SchemaName], list[PayloadHead]]
    errors: list[tuple[int, str]]


def sides_of(topic: str, settings: LogSettings) -> tuple[Side, ...]:
    asked = (
        (True, settings.confluent_key_schema_validation, settings.confluent_key_subject_name_strategy),
        (False, settings.confluent_value_schema_validation, settings.confluent_value_subject_name_strategy),
    )
    return tuple(Side(topic, is_key, strategy_named(strategy)) for is_key, is_on, strategy in asked if is_on)


def read_claims(sides: tuple[Side, ...], batch: Buffer) -> Claims:
    """Raises ApiError for a batch that cannot be read."""
    claims = Claims({}, [])
    count = read_header(batch).record_count
    if count > _MOST_RECORDS:
        raise ApiError(ErrorCode.INVALID_RECORD, f"schemas are checked of {_MOST_RECORDS} records a batch, not {count}")
    for number, record in enumerate(iterate_records(batch, MOST_BYTES)):
        for side in sides:
            _note(claims, side, number, record)
    return claims


def _note(claims: Claims, side: Side, number: int, record: Record) -> None:
    payload = record.key if side.is_key else record.value
    if payload is None:
        return
    try:
        frame = read_frame(payload, record.headers, is_key=side.is_key)
    except FramingError:
        note_error(claims.errors, number, f"the {side.word} does not say which schema it was written with")
        return
    name = frame.guid if frame.schema_id is None else frame.schema_id
    assert name is not None, "a frame has either"
    if len(claims.by_schema) >= _MOST_SCHEMAS and (side, name) not in claims.by_schema:
        note_error(claims.errors, number, f"the batch names more than {_MOST_SCHEMAS} schemas")
        return
    place = PayloadHead(number, _head(frame) if side.strategy.needs_record else b"")
    claims.by_schema.setdefault((side, name), []).append(place)


def _head(frame: Frame) -> bytes:
    return (frame.payload if frame.before is None else frame.before)[:_HEAD_BYTES]


def note_error(errors: list[tuple[int, str]], record: int, text: str) -> None:
    if len(errors) < _MOST_ERRORS:
        errors.append((record, text))
