"""Kinds that are messages: structs, and Google's messages that mean one value.

Writers keep the order of the fields' numbers, so each field looks at what its rows have next, and passes by fields that
the message does not know. A row in any other form (another order, a field twice, groups) fails, and protobuf's runtime
reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.message import Message

from penstock.serdes.columns.avro.nested_columns import struct_of
from penstock.serdes.columns.avro.row_cursors import RowCursors
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.columns.protobuf.fields import ProtobufField
from penstock.serdes.columns.protobuf.scalars import ScalarKind
from penstock.serdes.columns.protobuf.wire import END, SPAN, Skipping, give_up, read_tags
from penstock.serdes.errors import PayloadError

_US = 1_000_000
_LARGEST = (1 << 63) - 1
# In seconds, as many as fit in microseconds with some to spare. The other reader takes larger ones.
_FAR = 9_000_000_000_000


@dataclass(frozen=True, slots=True)
class MessageField:
    name: str
    number: int
    has_presence: bool
    field: ProtobufField
    # Of a oneof's fields at most one has a value: the last that comes.
    oneof: str | None = None


class MessageKind:
    wire = SPAN
    absent = 0

    def __init__(
        self,
        fields: Sequence[MessageField],
        others: frozenset[int] = frozenset(),
        wanted: frozenset[str] | None = None,
        *,
        is_entry: bool = False,
    ) -> None:
        """`others`: numbers that the runtime knows beside those of the fields. `wanted`: the columns, if not all.

        `is_entry`: of a map. The runtime leaves an entry out that has fields it does not know: rows with one fail.
        """
        self._fields = fields
        self._shown = [each for each in fields if wanted is None or each.name in wanted]
        self._arrow = [pa.field(each.name, each.field.type, each.has_presence) for each in self._shown]
        self._skipping = Skipping(frozenset(each.number for each in fields) | others) if not is_entry else None
        self.type = pa.struct(self._arrow)
        self.columns = 1 + sum(each.field.columns for each in fields)

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        if not len(cursors):
            return pa.array([], self.type)
        tags = read_tags(cursors)
        chosen: dict[str, Numbers] = {}
        columns = {}
        for each in self._fields:
            self._skip(cursors, tags, each.number << 3)
            if each.oneof is not None:
                _choose(cursors, tags, chosen, each.oneof, each.field.tag)
            columns[each.name] = each.field.read(cursors, tags)
        self._skip(cursors, tags, END)
        cursors.fail(cursors.position != cursors.end)
        return struct_of(self._arrow, [columns[each.name] for each in self._shown], len(cursors))

    def _skip(self, cursors: RowCursors, tags: Numbers, below: int) -> None:
        is_below = tags < below
        if not is_below.any():
            return
        if self._skipping is None:
            give_up(cursors, tags, np.flatnonzero(is_below))
        else:
            self._skipping.skip(cursors, tags, below)

    def of(self, value: Any) -> Any:
        found = {}
        for each in self._shown:
            is_absent = each.has_presence and not value.HasField(each.name)
            found[each.name] = None if is_absent else each.field.of(getattr(value, each.name))
        return found


def _choose(cursors: RowCursors, tags: Numbers, chosen: dict[str, Numbers], oneof: str, tag: int) -> None:
    has = tags == tag
    if oneof not in chosen:
        chosen[oneof] = has
        return
    twice = np.flatnonzero(has & chosen[oneof])
    if len(twice):
        give_up(cursors, tags, twice)
    chosen[oneof] |= has


class TimeKind:
    """Timestamp and Duration, of seconds and nanoseconds. A larger value becomes the largest that Arrow holds."""

    wire = SPAN
    absent = 0
    columns = 1

    def __init__(self, kind: pa.DataType, inner: MessageKind) -> None:
        self.type = kind
        self._inner = inner

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        found = self._inner.make(cursors, numbers)
        seconds = found.field(0).to_numpy(zero_copy_only=False)
        nanos = found.field(1).to_numpy(zero_copy_only=False).astype(np.int64)
        is_far = (seconds > _FAR) | (seconds < -_FAR)
        if is_far.any():
            cursors.fail(is_far)
            seconds = np.where(is_far, 0, seconds)
        part = np.abs(nanos) // 1000
        return pa.array(seconds * _US + np.where(nanos < 0, -part, part)).view(self.type)

    def of(self, value: Any) -> Any:
        # Towards zero for durations, whose parts have one sign; nanoseconds of timestamps are not negative.
        part = abs(value.nanos) // 1000
        total = value.seconds * _US + (part if value.nanos >= 0 else -part)
        return int(max(-_LARGEST - 1, min(_LARGEST, total)))


class WrapperKind:
    """The value alone."""

    wire = SPAN
    absent = 0
    columns = 1

    def __init__(self, inner: MessageKind, value: ScalarKind) -> None:
        self.type = value.type
        self._inner = inner
        self._value = value

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        found = self._inner.make(cursors, numbers)
        return found.field(0)

    def of(self, value: Any) -> Any:
        return self._value.of(value.value)


class JsonKind:
    """A message that contains itself has no Arrow type: the column has its JSON text."""

    type = pa.string()
    wire = SPAN
    absent = 0
    columns = 1

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        # An empty payload is a message without values; the runtime reads any other.
        cursors.fail(cursors.end > cursors.position)
        return pa.array(["{}"] * len(cursors), pa.string())

    def of(self, value: Message) -> Any:
        try:
            return str(json_format.MessageToJson(value, indent=None, ensure_ascii=False))
        except (json_format.SerializeToJsonError, ValueError, TypeError, RecursionError):
            raise PayloadError("a message within itself has no JSON text") from None
