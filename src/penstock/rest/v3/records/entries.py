"""Makes a record from its body: payloads by their formats, headers, a partition, a time."""

from __future__ import annotations

import datetime
from typing import NamedTuple

from msgspec import UNSET, Raw, UnsetType

from penstock.client.batch_producer import NewRecord
from penstock.rest.errors import INVALID_PAYLOAD, JSON_CONVERSION, PARTITION_NOT_FOUND, RestError
from penstock.rest.formats.formats import MOST_BYTES, Format, PayloadWriter, SchemaChoice, WriteRight
from penstock.rest.formats.payloads import Payloads
from penstock.rest.formats.plain import PLAIN_WRITERS
from penstock.rest.number_texts import number_of
from penstock.rest.record_producer import Outgoing, Written
from penstock.rest.v3.bodies import NewData, NewRecordBody
from penstock.rest.v3.shapes import ProducedData

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FORMATS = {each.name: each for each in Format}


class Entry(NamedTuple):
    """A record that is ready to be written, with the answer's data on its key and value."""

    outgoing: Outgoing
    key: ProducedData | UnsetType
    value: ProducedData | UnsetType

    @property
    def size(self) -> int:
        """Bytes of its key and value."""
        record = self.outgoing.record
        return len(record.key or b"") + len(record.value or b"")


async def make_entry(body: NewRecordBody, topic: str, payloads: Payloads, right: WriteRight, now_ms: int) -> Entry:
    """Raises RestError for values that do not fit."""
    partition = number_of(body.partition_id)
    if partition is not None and partition < 0:
        raise RestError(PARTITION_NOT_FOUND, "Partition not found.")
    # A new text is registered once both the key and the value fit: they are encoded twice then.
    for is_draft in (True, False):
        key = await _payload(body.key, topic, payloads, right, is_key=True, is_draft=is_draft)
        value = await _payload(body.value, topic, payloads, right, is_key=False, is_draft=is_draft)
        if not key.is_draft and not value.is_draft:
            break
    headers = tuple((each.name, each.value) for each in body.headers or ())
    timestamp_ms = now_ms if body.timestamp is None else _milliseconds(body.timestamp)
    record = NewRecord(key.data, value.data, headers, timestamp_ms)
    return Entry(Outgoing(record, partition), key.told, value.told)


def _milliseconds(time: datetime.datetime) -> int:
    """Without a zone the time is UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)
    found = (time - _EPOCH) // datetime.timedelta(milliseconds=1)
    if found < 0:
        raise RestError(400, "Bad Request: the timestamp is before 1970")
    return found


class _Payload(NamedTuple):
    data: bytes | None = None
    told: ProducedData | UnsetType = UNSET
    is_draft: bool = False


async def _payload(
    data: NewData | None, topic: str, payloads: Payloads, right: WriteRight, *, is_key: bool, is_draft: bool
) -> _Payload:
    if data is None:
        return _Payload()
    form = None if data.type is None else _FORMATS[data.type]
    plain = None if form is None else PLAIN_WRITERS.get(form)
    if plain is not None and form is not None:
        payload = _write(plain, data.data)
        return _Payload(payload, ProducedData(form.name, len(payload or b"")))
    choice = _choice(data)._replace(is_draft=is_draft)
    writer = await payloads.schema_writer(form, topic, is_key=is_key, right=right, choice=choice)
    text = data.data
    payload = await payloads.write_all(writer.form, lambda most: _write(writer, text, most), len(bytes(text)))
    used = writer.schema
    told = ProducedData(writer.form.name, len(payload or b""), used.subject, used.schema_id, used.version)
    return _Payload(payload, told, writer.is_draft)


def _write(writer: PayloadWriter, data: Raw, most_bytes: int = MOST_BYTES) -> bytes | None:
    """Data that does not fit has codes of its own in v2, and 400 in v3."""
    try:
        return writer.write(bytes(data), most_bytes)
    except RestError as error:
        if error.code in (INVALID_PAYLOAD, JSON_CONVERSION):
            raise RestError(400, f"Bad Request: {error.message}") from None
        raise


def _choice(data: NewData) -> SchemaChoice:
    given = sum(each is not None for each in (data.schema_id, data.schema_version, data.schema))
    if given > 1:
        raise RestError(400, "Bad Request: at most one of schema_id, schema_version and schema can be given")
    if data.schema is not None and data.type is None:
        raise RestError(400, "Bad Request: schema needs type")
    return SchemaChoice(
        schema_id=number_of(data.schema_id),
        text=data.schema,
        version=number_of(data.schema_version),
        subject=data.subject,
        strategy=data.subject_name_strategy,
        may_be_latest=True,
    )


def show_time(entry: Entry, written: Written) -> str:
    """The time of the record: the broker's for topics with LogAppendTime, its own otherwise."""
    milliseconds = written.timestamp_ms
    if milliseconds < 0:
        milliseconds = entry.outgoing.record.timestamp_ms or 0
    time = _EPOCH + datetime.timedelta(milliseconds=milliseconds)
    return time.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds").replace("+00:00", "Z")
