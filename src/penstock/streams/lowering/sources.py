"""Records of a topic as rows. A record that does not decode has an `error` and keeps its `source`, as in pipelines,
until a step has handled it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines import dead_letters
from penstock.pipelines.dead_letters import ERROR, SOURCE, good_or_fail, only_good
from penstock.pipelines.steps.parsing import keep_source
from penstock.streams.lowering.columns import column
from penstock.streams.lowering.decoding import Decoding, Part, decoding
from penstock.streams.lowering.watermarks import with_watermark
from penstock.streams.topology.nodes import HEADERS, KEY, NULL, OFFSET, PARTITION, TIMESTAMP, Shape, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.streams.lowering.context import Context

_DECODED_KEY, _DECODED_VALUE = "_decoded_key", "_decoded_value"
# Of the year 9999.
_LAST_MICROSECOND = 253_402_300_799_999_999


def source_rows(node: Source, records: DataFrame, context: Context) -> DataFrame:
    """Rows of the records that decode. The first one that does not fails the batch, unless there are dead letters."""
    judged = judged_rows(node, records, context)
    good = good_or_fail(judged) if context.plan.topology.dead_letters is None else only_good(judged)
    rows = good.drop(SOURCE)
    if node.shape is Shape.TABLE:
        rows = rows.where(column(KEY).isNotNull())
    return with_watermark(rows, node.name, context)


def judged_rows(node: Source, records: DataFrame, context: Context) -> DataFrame:
    """All records: `source`, `error`, and the columns of rows."""
    from pyspark.sql import functions as F

    kept = keep_source(records)
    key = _decoding(node, "key", kept, context)
    value = _decoding(node, "value", kept, context)
    decoded = value.put_into(key.put_into(kept, _DECODED_KEY), _DECODED_VALUE)
    error = F.coalesce(key.error(_DECODED_KEY), value.error(_DECODED_VALUE))
    values = value.columns(_DECODED_VALUE)
    rows = decoded.select(
        column(SOURCE),
        error.alias(ERROR),
        *values,
        key.whole(_DECODED_KEY).alias(KEY),
        F.col(f"{SOURCE}.timestamp").alias(TIMESTAMP),
        value.is_null(_DECODED_VALUE).alias(NULL),
        _partition(node).alias(PARTITION),
        F.col(f"{SOURCE}.offset").alias(OFFSET),
        *([F.col(f"{SOURCE}.headers").alias(HEADERS)] if node.with_headers else []),
    )
    return rows if node.time is None else _timed(rows, node.time)


def _partition(node: Source) -> Column:
    """Of a pattern a number for topic and partition, since rows are ordered by it. Two of a thousand partitions have
    the same one in a case of ten thousand, two of 12,000 in 1.7 of a hundred; then rows of a key that is in both may
    come in the order of their offsets."""
    from pyspark.sql import functions as F

    number = F.col(f"{SOURCE}.partition")
    return number if isinstance(node.topic, str) else F.hash(F.col(f"{SOURCE}.topic"), number)


def _timed(rows: DataFrame, time: str) -> DataFrame:
    """The time of the event, in milliseconds as Kafka keeps it. A row without a value has the record's; a value without
    a time is an error. So is a time before 1970, which no record can have, and which all windows would take for late,
    and a time after the year 9999, after which all others would be late: milliseconds taken for seconds."""
    from pyspark.sql import functions as F

    at = F.date_trunc("MILLISECOND", F.expr(time).cast("timestamp"))
    missing = F.when(~column(NULL) & at.isNull(), F.lit(f"the record has no time: {time} is null"))
    too_old = F.when(~column(NULL) & (F.unix_micros(at) < 0), F.lit(f"the record's time is before 1970: {time}"))
    is_too_new = ~column(NULL) & (F.unix_micros(at) > F.lit(_LAST_MICROSECOND))
    too_new = F.when(is_too_new, F.lit(f"the record's time is after the year 9999: {time}; a number is in seconds"))
    timed = F.when(column(NULL), column(TIMESTAMP)).otherwise(at)
    names = rows.columns
    changed = {
        ERROR: F.coalesce(column(ERROR), missing, too_old, too_new).alias(ERROR),
        TIMESTAMP: timed.alias(TIMESTAMP),
    }
    return rows.select(*(changed.get(name, column(name)) for name in names))


def _decoding(node: Source, of: Part, kept: DataFrame, context: Context) -> Decoding:
    from pyspark.sql import functions as F

    has_headers = dead_letters.HEADERS in kept.select(f"{SOURCE}.*").columns
    headers = F.col(f"{SOURCE}.{dead_letters.HEADERS}") if has_headers else None
    return decoding(node, of, context, F.col(f"{SOURCE}.{of}"), headers)
