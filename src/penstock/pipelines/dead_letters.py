"""Rows that did not parse or did not pass: what they carry, and what becomes of them.

Blocks that judge rows leave two columns behind: `error`, null where all is well, and `source`, the record as it was
read. A dead letter is the record's own key and value, with the reason and the place it came from in its headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR = "error"
SOURCE = "source"
SOURCE_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value")
# Header of a dead letter -> the field of `source` it holds.
HEADER_FIELDS = {
    "penstock.source.topic": "topic",
    "penstock.source.partition": "partition",
    "penstock.source.offset": "offset",
    "penstock.source.timestamp": "timestamp",
}


def can_fail(rows: DataFrame) -> bool:
    return ERROR in rows.columns


def only_good(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.where(F.col(ERROR).isNull()).drop(ERROR)


def good_or_fail(rows: DataFrame) -> DataFrame:
    """The good rows, for a pipeline without dead letters: the first bad row fails the batch and names its source."""
    from pyspark.sql import functions as F

    place = [F.lit(" (topic "), F.col("source.topic"), F.lit(", partition "), F.col("source.partition").cast("string")]
    place += [F.lit(", offset "), F.col("source.offset").cast("string"), F.lit(")")]
    message = F.concat(F.lit("a record was refused: "), F.col(ERROR), *(place if SOURCE in rows.columns else ()))
    refuse = F.raise_error(message).cast("boolean")
    return rows.where(F.when(F.col(ERROR).isNull(), F.lit(True)).otherwise(refuse)).drop(ERROR)


def to_dead_letters(rows: DataFrame, pipeline: str) -> DataFrame:
    """Rows as a topic takes them: key, value, headers."""
    from pyspark.sql import functions as F

    headers = [_header("penstock.error", F.col(ERROR)), _header("penstock.pipeline", F.lit(pipeline))]
    headers += [_header(name, F.col(f"{SOURCE}.{field}")) for name, field in HEADER_FIELDS.items()]
    return rows.where(F.col(ERROR).isNotNull()).select(
        F.col(f"{SOURCE}.key").alias("key"), F.col(f"{SOURCE}.value").alias("value"), F.array(*headers).alias("headers")
    )


def _header(name: str, value: Column) -> Column:
    from pyspark.sql import functions as F

    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
