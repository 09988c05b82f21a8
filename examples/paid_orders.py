"""Two streams joined: each order with its payment, if that comes within an hour.

penstock topics create orders
penstock topics create payments
echo '{"order": 1, "item": "pump", "ordered_at": "2026-05-01T10:00:00Z"}' | penstock produce orders
echo '{"order": 1, "amount": 99.5, "paid_at": "2026-05-01T10:20:00Z"}' | penstock produce payments
penstock pipeline run examples/paid_orders.py --once
penstock consume paid-orders --from beginning --exit
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipelines import Pipeline, Topic
from penstock.pipelines.sinks.topic import ALL_AS_JSON, TopicSettings, TopicSink
from penstock.pipelines.steps import parse_json


def read(rows: DataFrame, columns: str, time: str) -> DataFrame:
    """The watermark says how late a record may be. With the hour below it also says when Spark may forget an order."""
    parsed = parse_json(columns)(rows).where("error IS NULL").drop("source", "error")
    return parsed.withWatermark(time, "10 minutes")


def join(orders: DataFrame, payments: DataFrame) -> DataFrame:
    ordered = read(orders, "order BIGINT, item STRING, ordered_at TIMESTAMP", "ordered_at")
    paid = read(payments, "order BIGINT, amount DOUBLE, paid_at TIMESTAMP", "paid_at").withColumnRenamed(
        "order", "paid"
    )
    in_time = F.expr("order = paid AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 1 HOUR")
    return ordered.join(paid, on=in_time, how="inner").drop("paid")


def paid_orders(orders: str = "orders", payments: str = "payments", target: str = "paid-orders") -> Pipeline:
    return Pipeline(
        name="paid-orders",
        sources=(Topic(orders), Topic(payments)),
        combine=join,  # called with one frame per source, in their order
        sinks=(TopicSink(target, key="CAST(order AS STRING)", value=ALL_AS_JSON, create=TopicSettings()),),
    )
