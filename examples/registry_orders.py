"""Orders above a limit, from a topic to another, by the schemas of a registry.

    penstock pipeline run examples/registry_orders.py --once --set registry.url=http://127.0.0.1:8081

The topic `orders` has Avro, JSON Schema or Protobuf, as any client's serializers write them, with an `id` and a `total`
at least; the topic `large-orders` gets Avro with the same columns. Orders that do not decode are in `orders.dead`, each
with the reason and the id of its schema. Topics of other names: --set source=... --set target=...
"""

from __future__ import annotations

from penstock.pipelines import Pipeline, Topic
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.steps import filter_rows, from_registry, to_registry


def registry_orders(source: str = "orders", target: str = "large-orders", limit: int = 100) -> Pipeline:
    return Pipeline(
        name="registry-orders",
        sources=(Topic(source, headers=True),),
        steps=(
            from_registry(new_columns="restart"),
            filter_rows(f"total >= {limit}"),
            to_registry(f"{target}-value", key="CAST(id AS STRING)"),
        ),
        sinks=(TopicSink(target, create=TopicSettings()),),
        dead_letters=TopicSink(f"{source}.dead", create=TopicSettings()),
    )
