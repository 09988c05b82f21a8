"""How a consumed record is written: a printf-like format, as kcat has it, or a JSON line.

    %t topic   %p partition   %o offset   %k key    %K key length     %T timestamp in ms
    %s value   %S value length   %h headers as k=v,k=v   %D timestamp as ISO 8601   %% a percent sign

A null prints the null marker, and its length is -1. Output is bytes: what was produced comes out as it was, unless it
is to be shown on a terminal, which would obey some of it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.text import unescape
from penstock.cli.times import format_time
from penstock.core.words.visible_text import harmless, harmless_json, one_line

Headers = Sequence[tuple[str, bytes | None]]

_TIMESTAMP_TYPES = {0: None, 1: "CreateTime", 2: "LogAppendTime"}


class OutputRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int  # librdkafka's: 0 none, 1 create time, 2 log append time
    key: bytes | None
    value: bytes | None
    headers: Headers
    # Where they were read by a schema: its id, and that key and value are JSON now.
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    key_is_json: bool = False
    value_is_json: bool = False


RecordWriter = Callable[[OutputRecord], bytes]
_Field = Callable[[OutputRecord, bytes], bytes]


def _length(payload: bytes | None) -> bytes:
    return b"%d" % (-1 if payload is None else len(payload))


def _text(payload: bytes | None, null: bytes) -> bytes:
    return null if payload is None else payload


def _join_headers(headers: Headers, null: bytes) -> bytes:
    return b",".join(name.encode() + b"=" + _text(value, null) for name, value in headers)


_FIELDS: dict[str, _Field] = {
    "t": lambda record, null: record.topic.encode(),
    "p": lambda record, null: b"%d" % record.partition,
    "o": lambda record, null: b"%d" % record.offset,
    "k": lambda record, null: _text(record.key, null),
    "K": lambda record, null: _length(record.key),
    "s": lambda record, null: _text(record.value, null),
    "S": lambda record, null: _length(record.value),
    "T": lambda record, null: b"%d" % record.timestamp,
    "D": lambda record, null: format_time(record.timestamp).encode(),
    "h": lambda record, null: _join_headers(record.headers, null),
    "%": lambda record, null: b"%",
}

_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)


# What others have written, and how a terminal may see it: names and headers in one line, payloads with their lines.
_SHOWN: dict[str, Callable[[str], str]] = {"t": one_line, "h": one_line, "k": harmless, "s": harmless}


def _made_harmless(field: _Field, show: Callable[[str], str]) -> _Field:
    return lambda record, null: show(field(record, null).decode("utf-8", "backslashreplace")).encode()


_SHOWN_FIELDS = {
    name: _made_harmless(field, _SHOWN[name]) if name in _SHOWN else field for name, field in _FIELDS.items()
}


def compile_format(text: str, null: bytes = b"null", *, is_shown: bool = False) -> RecordWriter:
    """A writer for the format `text`; `is_shown`: on a terminal. UsageError names a placeholder that does not exist."""
    fields = _SHOWN_FIELDS if is_shown else _FIELDS
    parts: list[bytes | _Field] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        field = fields.get(match.group(1))
        if field is None:
            raise UsageError(
                f"{match.group(0)!r} is not a placeholder", "There are %t %p %o %k %K %s %S %T %D %h and %%."
            )
        parts.extend((unescape(text[end : match.start()]), field))
        end = match.end()
    parts.append(unescape(text[end:]))

    def write(record: OutputRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record, null) for part in parts)

    return write


class PrintOptions(NamedTuple):
    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False


def build_format(options: PrintOptions, separator: str = "\\t") -> str:
    """The format for the --print-* options, in the order of Kafka's console consumer."""
    placeholders = {"timestamp": "%D", "partition": "%p", "offset": "%o", "headers": "%h", "key": "%k"}
    chosen = [placeholders[name] for name, wanted in options._asdict().items() if wanted]
    return separator.replace("%", "%%").join([*chosen, "%s"]) + "\\n"


def write_json(record: OutputRecord) -> bytes:
    """One line that `produce --format json` reads back to the same record."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _TIMESTAMP_TYPES.get(record.timestamp_type),
        **_json_field("key", record.key, record.key_schema_id, record.key_is_json),
        **_json_field("value", record.value, record.value_schema_id, record.value_is_json),
        "headers": [{"key": name, **json_payload("value", value)} for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def show_json(record: OutputRecord) -> bytes:
    """The same document, for a terminal."""
    return harmless_json(write_json(record).decode()).encode()


def _json_field(name: str, payload: bytes | None, schema_id: int | None, is_json: bool) -> dict[str, Any]:
    if payload is None or not is_json:
        return dict(json_payload(name, payload))
    named = {} if schema_id is None else {f"{name}_schema_id": schema_id}
    return {name: json.loads(payload), **named}


def json_payload(name: str, payload: bytes | None) -> dict[str, str | None]:
    """Text where the bytes are UTF-8; otherwise the name says that it is base64."""
    if payload is None:
        return {name: None}
    try:
        return {name: payload.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(payload).decode("ascii")}
