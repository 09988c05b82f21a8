"""Numbers of Arrow columns, checked, in the forms of numpy and of the formats."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import PayloadError

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EXCERPT = 60


def numpy_of(values: pa.Array) -> Numbers:
    """Of values without null."""
    found: Numbers = values.to_numpy(zero_copy_only=False)
    return found


def shown(values: pa.Array) -> Callable[[int], str]:
    """A value for an error, by its position."""
    return lambda position: str(values[position].as_py())[:_EXCERPT]


def is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0))


def whole(values: pa.Array, lowest: int, highest: int, refusals: Refusals) -> Numbers:
    """Numbers of 64 bits with a sign, or without one where `highest` needs it. Refuses others, which become 0."""
    if pa.types.is_decimal(values.type):
        return _whole_decimals(values, lowest, highest, refusals)
    numbers = numpy_of(values)
    bounds = np.iinfo(numbers.dtype)
    if bounds.min < lowest or bounds.max > highest:
        is_bad = np.zeros(len(numbers), dtype=bool)
        if bounds.min < lowest:
            is_bad |= numbers < lowest
        if bounds.max > highest:
            is_bad |= numbers > highest
        if refuse_range(values, is_bad, lowest, highest, refusals):
            numbers = np.where(is_bad, 0, numbers)
    return numbers.astype(np.int64 if highest < 1 << 63 else np.uint64)


def _whole_decimals(values: pa.Array, lowest: int, highest: int, refusals: Refusals) -> Numbers:
    found = [int(each) for each in values.to_pylist()]
    is_bad = np.array([not lowest <= each <= highest for each in found], dtype=bool)
    refuse_range(values, is_bad, lowest, highest, refusals)
    good = [0 if bad else each for bad, each in zip(is_bad.tolist(), found, strict=True)]
    return np.array(good, dtype=np.int64 if highest < 1 << 63 else np.uint64)


def refuse_range(values: pa.Array, is_bad: Numbers, lowest: int, highest: int, refusals: Refusals) -> bool:
    text = shown(values)
    return refusals.note(is_bad, lambda row: f"{text(row)} is not between {lowest} and {highest}")


def floating(values: pa.Array, size: int, refusals: Refusals) -> Numbers:
    """Numbers of 4 or 8 bytes. Refuses a finite number that is too large for 4 bytes; digits may be lost."""
    numbers = numpy_of(values)
    if size == 8 or numbers.dtype == np.float32:
        return numbers.astype(f"<f{size}")
    with np.errstate(over="ignore"):
        narrow = numbers.astype("<f4")
    text = shown(values)
    refusals.note(
        np.isinf(narrow) & np.isfinite(numbers.astype(np.float64)),
        lambda row: f"{text(row)} is too large for a number of 4 bytes",
    )
    return narrow


def ticks(values: pa.Array, unit: str, refusals: Refusals) -> Numbers:
    """Timestamps, times and durations in another unit. A finer part is cut off, towards the past."""
    kind = values.type
    numbers = numpy_of(values.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())).astype(np.int64, copy=False)
    have, want = _UNITS[kind.unit], _UNITS[unit]
    if have >= want:
        return numbers // (have // want) if have > want else numbers
    factor = want // have
    most = ((1 << 63) - 1) // factor
    is_bad = (numbers > most) | (numbers < -most)
    # The number and not the time: Python's datetime does not have all of them.
    if refusals.note(is_bad, lambda row: f"a time {numbers[row]} {kind.unit} from 1970 does not fit {unit} of 64 bits"):
        numbers = np.where(is_bad, 0, numbers)
    return numbers * factor


def unscaled(values: pa.Array, precision: int, scale: int, refusals: Refusals) -> Numbers:
    """Decimals of at most 38 digits: 16 bytes a row, the highest first. Refuses inexact values, which become 0."""
    target = pa.decimal128(precision, scale)
    try:
        found = (values.cast(pa.decimal128(20, 0)) if pa.types.is_integer(values.type) else values).cast(target)
    except pa.ArrowInvalid:
        found = pa.array(_fitting(values.to_pylist(), precision, scale, refusals), target)
    raw = np.frombuffer(found.buffers()[1], dtype=np.uint8)[: (found.offset + len(found)) * 16]
    return raw.reshape(-1, 16)[found.offset :, ::-1]


def _fitting(values: list[Any], precision: int, scale: int, refusals: Refusals) -> list[Decimal]:
    good: list[Decimal] = []
    for row, value in enumerate(values):
        try:
            good.append(pa.scalar(Decimal(value), pa.decimal128(precision, scale)).as_py())
        except pa.ArrowInvalid:
            refusals.add(row, PayloadError(f"{value} does not fit a decimal({precision}, {scale})"))
            good.append(Decimal(0))
    return good


def is_negative(matrix: Numbers) -> Numbers:
    return matrix[:, 0] > 0x7F


def needed(matrix: Numbers) -> Numbers:
    """Marks the bytes of numbers, the highest first, that are needed: False where they only repeat the sign."""
    fill = np.where(is_negative(matrix), 0xFF, 0).astype(np.uint8)[:, None]
    # A byte can go if it is all sign, those before it go, and the next one has the same sign.
    has_sign = (matrix[:, 1:] > 0x7F) == (fill > 0x7F)
    can_go = np.logical_and.accumulate((matrix[:, :-1] == fill) & has_sign, axis=1)
    return np.hstack([~can_go, np.ones((len(matrix), 1), dtype=bool)])
