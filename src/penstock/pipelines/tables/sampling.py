"""Some records of a topic, from the ends of its partitions, which show the form of payloads without a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from penstock.pipelines.payloads.decoding import KEY_SCHEMA_HEADER, VALUE_SCHEMA_HEADER
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.read_options import FetchOptions
from penstock.pipelines.source.tasks import read_range
from penstock.pipelines.tables.ends import LEAST_RECORDS, SAMPLE_RECORDS, Seen
from penstock.serdes.columns.payloads import SchemaKey, read_frames

# Records of more partitions hardly say more, and each partition is a question of its own.
_MOST_PARTITIONS = 8
# A user waits for the columns of a table.
_PATIENCE_MS = 10_000
# A look at records asks for so much at once. Brokers send a larger batch whole.
_PEEK_BYTES = 256 * 1024
_MOST_ANSWERS = 2
# Numbers and hashes are UTF-8 by chance at times, and have such characters then.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# A topic is one of JSON objects, where so many of its values are.
_MOST_SHARE = 0.9
# A topic whose records name more schemas than this is no table of one of them.
MOST_SCHEMAS = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of one topic. What is null is null here, too."""

    keys: pa.Array
    values: pa.Array
    headers: pa.Array
    partitions: pa.Array
    offsets: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    def payloads(self, *, is_key: bool) -> pa.Array:
        return self.keys if is_key else self.values

    def schema_headers(self, *, is_key: bool) -> pa.Array:
        """The header that names the schema, null where there is none."""
        name = KEY_SCHEMA_HEADER if is_key else VALUE_SCHEMA_HEADER
        found = [{each["key"]: each["value"] for each in row or ()}.get(name) for row in self.headers.to_pylist()]
        return pa.array(found, pa.binary())


def plan_sample(ranges: Iterable[OffsetRange], records: int) -> list[OffsetRange]:
    """The ends of the partitions that have most records. A pure function."""
    largest = sorted((each for each in ranges if each.size > 0), key=lambda each: (-each.size, each))[:_MOST_PARTITIONS]
    if not largest:
        return []
    share = -(-records // len(largest))
    return [each._replace(start=max(each.start, each.end - share)) for each in largest]


def take_sample(ranges: Iterable[OffsetRange], fetch: FetchOptions, records: int, size: int) -> Sample:
    """At most `records`, and about `size` bytes. Raises FetchError."""
    careful = replace(
        fetch, include_headers=True, fail_on_data_loss=False, max_bytes=size, poll_timeout_ms=_PATIENCE_MS
    )
    found: list[pa.RecordBatch] = []
    planned = plan_sample(ranges, records)
    for part in planned:
        taken = 0
        for rows in read_range(part, careful):
            found.append(rows)
            taken += rows.nbytes
            if taken >= size // len(planned):
                break
    if not found:
        nothing = pa.array([], pa.binary())
        return Sample(nothing, nothing, pa.nulls(0), pa.nulls(0), pa.nulls(0))
    whole = pa.Table.from_batches(found).combine_chunks()
    return Sample(*(whole.column(name).combine_chunks() for name in ("key", "value", "headers", "partition", "offset")))


def peek_times(part: OffsetRange, fetch: FetchOptions) -> Seen:
    """When the first records of the range were written, without their keys and values. Raises FetchError.

    The first look is at as many offsets as records are wanted, which one answer has. Where most of these offsets are
    gaps, the second goes on until there are enough records."""
    careful = replace(
        fetch,
        include_keys=False,
        include_values=False,
        fail_on_data_loss=False,
        max_bytes=_PEEK_BYTES,
        poll_timeout_ms=_PATIENCE_MS,
    )
    seen = _first_times(part._replace(end=min(part.end, part.start + SAMPLE_RECORDS)), careful)
    is_enough = len(seen.offsets) >= LEAST_RECORDS or part.size <= SAMPLE_RECORDS
    return seen if is_enough else _first_times(part, careful)


def _first_times(part: OffsetRange, fetch: FetchOptions) -> Seen:
    offsets: list[int] = []
    times_ms: list[int] = []
    for answers, rows in enumerate(read_range(part, fetch), 1):
        offsets += rows.column("offset").to_pylist()
        times_ms += (rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000).tolist()
        # Of large records, few are enough.
        if len(offsets) >= (SAMPLE_RECORDS if answers < _MOST_ANSWERS else LEAST_RECORDS):
            break
    return Seen(offsets[:SAMPLE_RECORDS], times_ms[:SAMPLE_RECORDS])


def named_schemas(payloads: pa.Array, headers: pa.Array) -> list[SchemaKey]:
    """The schemas that payloads name, sorted; empty where one that is not null names none."""
    present = payloads.is_valid()
    payloads, headers = payloads.filter(present), headers.filter(present)
    if not len(payloads):
        return []
    framed = read_frames(payloads, headers)
    return [] if framed.errors else sorted(framed.groups, key=str)


class Objects(NamedTuple):
    """The objects of JSON among payloads, and the places of those that are neither an object nor null."""

    found: list[dict[str, Any]]
    others: list[int]

    @property
    def is_most(self) -> bool:
        """Whether so many are objects that others are mistakes."""
        return bool(self.found) and len(self.found) >= _MOST_SHARE * (len(self.found) + len(self.others))


def read_objects(payloads: Sequence[bytes | None]) -> Objects:
    objects = Objects([], [])
    for place, payload in enumerate(payloads):
        if payload is None:
            continue
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            objects.found.append(value)
        else:
            objects.others.append(place)
    return objects


def is_text(payloads: Sequence[bytes | None]) -> bool:
    """Whether all payloads are readable text."""
    for payload in payloads:
        try:
            if payload is not None and _CONTROL.search(payload.decode()):
                return False
        except UnicodeDecodeError:
            return False
    return True
