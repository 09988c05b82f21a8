"""The application of streams of `pipeline.rounds`, and the process that runs it until it is killed.

    python -m proof.pipeline.streams_driver DIRECTORY SERVERS MASTER [--once]

Two tables are joined by their key, one of them with a third by a foreign key, and clicks are counted in windows of a
minute; all of it exactly once into topics.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.pipelines import Settings
from penstock.pipelines.runtime.spark.session import open_session
from penstock.streams import Streams, json, tumbling
from penstock.streams.runtime.application import open_run, pipeline_for
from proof.pipeline.driver import checkpoint_of, exit_code

ORDERS, NOTES, CUSTOMERS, CLICKS = "rounds-orders", "rounds-notes", "rounds-customers", "rounds-clicks"
JOINED, BY_CUSTOMER, COUNTED = "rounds-joined", "rounds-by-customer", "rounds-counted"
TOPICS = dict.fromkeys((ORDERS, NOTES, CUSTOMERS, CLICKS, JOINED, BY_CUSTOMER, COUNTED), 2)


def application(directory: Path, servers: str) -> Streams:
    settings = Settings(
        bootstrap_servers=servers,
        checkpoint=str(checkpoint_of(directory)),
        trigger="100 milliseconds",
        parallelism=2,
        spark={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": str(directory / "local"),
            "spark.pyspark.python": sys.executable,
        },
    )
    app = Streams("rounds", settings)
    orders = app.table(ORDERS, value=json("customer string, amount bigint"))
    notes = app.table(NOTES, value=json("note bigint"))
    customers = app.table(CUSTOMERS, value=json("name string"))
    orders.join(notes, how="left", name="with-notes").to(JOINED)
    orders.join(customers, how="left", on="customer", name="with-customers").to(BY_CUSTOMER)
    clicks = app.stream(CLICKS, value=json("user string, number bigint"))
    clicks.group_by("user").windowed(tumbling("1 minute", grace="30 days")).count(name="clicks").to(COUNTED)
    return app


def run(directory: Path, servers: str, master: str, once: bool) -> None:
    app = application(directory, servers)
    spark = open_session(pipeline_for(app), master)
    try:
        running = open_run(spark, app, once=once)
        running.start()
        running.wait()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(exit_code(run, *sys.argv[1:]))
