"""Rows that did not parse or did not pass: what they carry, and what becomes of them.

Blocks that judge rows leave two columns behind: `error`, null where all is well, and `source`, the record as it was
read. A dead letter is the record's own key and value, with the reason and the place it came from in its headers; the
record's own headers, where they were read, come before. A step that decodes by a schema also leaves `source.schema`
behind: the id or the guid of the schema that the record names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ERROR = "error"
SOURCE = "source"
SOURCE_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value")
HEADERS = "headers"  # a further one, where the topic is read with its headers
SCHEMA = "schema"  # a further one, where a schema was read by
SCHEMA_HEADER = "penstock.schema.id"
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
    return rows.where(f"{ERROR} IS NULL").drop(ERROR)


def good_or_fail(rows: DataFrame) -> DataFrame:
    """The good rows, for a pipeline without dead letters: the first bad row fails the batch and names its source."""
    from pyspark.sql import functions as F

    place = [F.lit(" (topic "), F.col("source.topic"), F.lit(", partition "), F.col("source.partition").cast("string")]
    place += [F.lit(", offset "), F.col("source.offset").cast("string"), F.lit(")")]
    message = F.concat(F.lit("a record was refused: "), F.col(ERROR), *(place if SOURCE in rows.columns else ()))
    refuse = F.raise_error(message).cast("boolean")
    return rows.where(F.when(F.col(ERROR).isNull(), F.lit(True)).otherwise(refuse)).drop(ERROR)


def to_dead_letters(rows: DataFrame, pipeline: str) -> DataFrame:
    """Rows as a topic takes them: key, value, headers. As SQL, which is one call into Java; put together from columns
    it would be two hundred, in every batch."""
    values = {"penstock.error": ERROR, "penstock.pipeline": f"'{pipeline}'"}  # a pipeline's name has no quotes
    values |= {name: f"{SOURCE}.{field}" for name, field in HEADER_FIELDS.items()}
    headers = f"array({', '.join(_header(name, value) for name, value in values.items())})"
    known = rows.select(f"{SOURCE}.*").columns if SOURCE in rows.columns else []
    own = [f"ifnull({SOURCE}.{HEADERS}, array())"] if HEADERS in known else []
    schema = f"{SOURCE}.{SCHEMA}"
    named = [f"IF({schema} IS NULL, array(), array({_header(SCHEMA_HEADER, schema)}))"] if SCHEMA in known else []
    return rows.where(f"{ERROR} IS NOT NULL").selectExpr(
        f"{SOURCE}.key AS key", f"{SOURCE}.value AS value", f"concat({', '.join([*own, headers, *named])}) AS headers"
    )


def _header(name: str, value: str) -> str:
    return f"named_struct('key', '{name}', 'value', CAST(CAST({value} AS STRING) AS BINARY))"
