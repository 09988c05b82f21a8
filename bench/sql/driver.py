"""Asks the questions in a Spark driver of its own: `python -m bench.sql.driver SPEC`, the SPEC as JSON.

All contenders are asked in the same session, in alternating rounds, after one round that does not count: Python
workers and the JVM's compiler would be most of what it shows. Answers are compared. Prints a line of JSON for each
round.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyarrow as pa  # here because Spark looks at the annotations of its function

from bench.errors import BenchError
from bench.gathering import alternate
from bench.spark_works import SESSION
from bench.sql.orders import HOUR_MS, HOURS, SCHEMA, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.sql.tables import Tables

OURS, CONNECTOR, PARQUET = "ours", "connector", "parquet"
Ask = Callable[[str], "DataFrame"]
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"

_LATEST = (
    "SELECT count(*), sum(amount) FROM (SELECT max_by(amount, struct(_timestamp, _offset)) AS amount FROM orders"
    " GROUP BY _key)"
)
# Question -> its text, and how one asks without `$latest`.
QUESTIONS = {
    "count": ("SELECT count(*) FROM orders WHERE quantity > 5",) * 2,
    "group": ("SELECT country, sum(amount) FROM orders GROUP BY country ORDER BY country",) * 2,
    "latest": ("SELECT count(*), sum(amount) FROM `orders$latest`", _LATEST),
}


@dataclass(frozen=True, slots=True)
class Spec:
    bootstrap: str
    registry: str
    metrics: str  # HOST:PORT
    parquet: str
    start_ms: int
    rounds: int
    jars: tuple[str, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        given = json.loads(text)
        return cls(**{**given, "jars": tuple(given["jars"])})


@contextmanager
def session(spec: Spec) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("bench-sql")
    jars = {"spark.jars": ",".join(spec.jars)} if spec.jars else {}
    for key, value in (SESSION | jars).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


# -------------------------------------------------------------------------------------------- contenders


def decode_orders(values: pa.Array) -> pa.Array:
    """What one writes without us: every record by fastavro, behind the five bytes of the registry's frame."""
    import io

    import fastavro

    schema = fastavro.parse_schema(json.loads(SCHEMA))
    read = fastavro.schemaless_reader
    rows = [read(io.BytesIO(value[5:]), schema, None) for value in values.to_pylist()]
    fields = {"id": pa.string(), "country": pa.string(), "quantity": pa.int32(), "amount": pa.float64()}
    kinds = [*fields.items(), ("note", pa.string()), ("ordered", pa.timestamp("us", "UTC"))]
    return pa.array(rows, pa.struct(kinds))


def connector_view(spark: SparkSession, spec: Spec) -> DataFrame:
    from pyspark.sql.functions import arrow_udf, col

    kind = "id string, country string, quantity int, amount double, note string, ordered timestamp"
    decode = arrow_udf(decode_orders, kind)  # type: ignore[call-overload]  # as its documentation has it
    records = spark.read.format("kafka").options(subscribe=TOPIC, **{"kafka.bootstrap.servers": spec.bootstrap}).load()
    ours = {"_key": "cast(key as string)", "_partition": "partition", "_offset": "offset", "_timestamp": "timestamp"}
    decoded = records.select(decode(col("value")).alias("order"), "key", "partition", "offset", "timestamp")
    return decoded.selectExpr("order.*", *(f"{text} AS {name}" for name, text in ours.items()))


def contenders(spark: SparkSession, spec: Spec, tables: Tables) -> dict[str, Ask]:
    def view(frame: DataFrame) -> Ask:
        return lambda text: spark.sql(text.replace(f"FROM {TOPIC}", "FROM {orders}"), orders=frame)

    found: dict[str, Ask] = {OURS: tables.sql, PARQUET: view(spark.read.parquet(spec.parquet))}
    if spec.jars:
        found[CONNECTOR] = view(connector_view(spark, spec))
    return found


# -------------------------------------------------------------------------------------------- questions


def ask_all(asked: Mapping[str, Ask], number: int) -> dict[str, dict[str, float]]:
    """Contender -> question -> seconds."""
    seconds: dict[str, dict[str, float]] = {name: {} for name in asked}
    for question, (text, text_of_others) in QUESTIONS.items():
        answers: dict[str, list[tuple[Any, ...]]] = {}
        for name, ask in alternate(list(asked.items()), number):
            started = time.perf_counter()
            answers[name] = [tuple(row) for row in ask(text if name == OURS else text_of_others).collect()]
            seconds[name][question] = time.perf_counter() - started
        _compare(question, answers)
    return seconds


def _compare(question: str, answers: Mapping[str, list[tuple[Any, ...]]]) -> None:
    ours = answers[OURS]
    for name, theirs in answers.items():
        same = len(ours) == len(theirs) and all(_is_same(*rows) for rows in zip(ours, theirs, strict=True))
        if not same:
            raise BenchError(f"{question}: ours answers {ours[:3]} and {name} {theirs[:3]}")


def _is_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """Sums of floating point depend on the order."""
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b for a, b in zip(ours, theirs, strict=True)
    )


# -------------------------------------------------------------------------------------------- bytes of an hour


def bytes_out(spec: Spec) -> float:
    with urlopen(f"http://{spec.metrics}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    wanted = f'topic="{TOPIC}"'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(BYTES_OUT) and wanted in line)


def hours_fetched(spec: Spec, ask: Ask) -> dict[str, float]:
    """How many hours' bytes each question reads, by the broker's own count."""

    def fetched(text: str) -> float:
        before = bytes_out(spec)
        ask(text).collect()
        return bytes_out(spec) - before

    def time_of(hour: int) -> str:
        moment = datetime.fromtimestamp((spec.start_ms + hour * HOUR_MS) / 1000, UTC)
        return f"TIMESTAMP'{moment:%Y-%m-%d %H:%M:%S}Z'"

    question = f"SELECT country, sum(amount) FROM {TOPIC}"  # noqa: S608  # our own words
    an_hour = fetched(f"{question} GROUP BY country") / HOURS
    middle = f"_timestamp >= {time_of(12)} AND _timestamp < {time_of(13)}"
    return {
        "hour": fetched(f"{question} WHERE {middle} GROUP BY country") / an_hour,
        "last-hour": fetched(f"{question} WHERE _timestamp >= {time_of(HOURS - 1)} GROUP BY country") / an_hour,
    }


def main(arguments: list[str]) -> int:
    from penstock.pipelines.sql.tables import register

    spec = Spec.from_json(arguments[0])
    with (
        session(spec) as spark,
        register(spark, spec.bootstrap, registry=spec.registry, has_views=False) as tables,
    ):
        asked = contenders(spark, spec, tables)
        ask_all(asked, 0)  # warm
        print(json.dumps({"hours": hours_fetched(spec, tables.sql)}), flush=True)
        for number in range(spec.rounds):
            print(json.dumps({"seconds": ask_all(asked, number)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
