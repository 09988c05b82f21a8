"""The topics of every schedule, and how a record is named in its history."""

from __future__ import annotations

from penstock.core.config.keys.throttles import ALL_REPLICAS, THROTTLED_REPLICAS
from penstock.protocol.records import Record

RECORDS, RECORDS_PARTITIONS = "records", 3
KEYED = "keyed"
KEYS = ("a", "b", "c", "d")
BRIEF = "brief"

# All replicas are throttled, where a schedule has a rate for that.
_THROTTLED = dict.fromkeys(THROTTLED_REPLICAS, ALL_REPLICAS)
# Name, partitions, settings.
TOPICS: tuple[tuple[str, int, dict[str, str]], ...] = (
    (RECORDS, RECORDS_PARTITIONS, _THROTTLED),
    (KEYED, 1, {"cleanup.policy": "compact", "segment.ms": "300"}),
    (BRIEF, 1, {"retention.ms": "1000", "segment.ms": "500"}),
)

# A tombstone has no value to be recognised by: a header has its name.
_NAME_HEADER = "name"


def build_record(key: str | None, value: str, timestamp_ms: int, *, is_tombstone: bool = False) -> Record:
    headers = ((_NAME_HEADER, value.encode()),) if is_tombstone else ()
    content = None if is_tombstone else value.encode()
    return Record(None if key is None else key.encode(), content, headers, timestamp_ms)


def name_value(key: str | None, value: str) -> str:
    return value if key is None else f"{key}={value}"


def name_record(record: Record) -> str:
    """What `name_value` says of a record that was built here. Damaged bytes have a name, too: one that nobody sent."""
    value = record.value
    if value is None:
        value = dict(record.headers).get(_NAME_HEADER) or b""
    key = None if record.key is None else record.key.decode("utf-8", "replace")
    return name_value(key, value.decode("utf-8", "replace"))
