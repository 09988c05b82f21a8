"""Texts of values without another form in a format."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


def decimal_texts(values: pa.Array) -> pa.Array:
    """Decimals without an exponent: Arrow writes one for small numbers."""
    texts = values.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([f"{each:f}" for each in values.to_pylist()], pa.string())
    return texts


def has_text(kind: pa.DataType) -> bool:
    """Whether values have the texts below."""
    return bool(kinds.is_date32(kind) or kinds.is_time(kind) or kinds.is_timestamp(kind) or kinds.is_decimal(kind))


def texts_of(values: pa.Array) -> pa.Array:
    """Dates and times in ISO 8601, `2026-01-31T10:00:00.500000Z`; without Z where there is no zone."""
    kind = values.type
    if kinds.is_decimal(kind):
        return decimal_texts(values)
    if not kinds.is_timestamp(kind):
        return values.cast(pa.string())
    if kind.tz not in (None, "UTC"):
        values = values.cast(pa.timestamp(kind.unit, "UTC"))
    return pc.replace_substring(values.cast(pa.string()), " ", "T")
