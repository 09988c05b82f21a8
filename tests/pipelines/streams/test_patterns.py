"""A stream of topics that a pattern finds, on a real broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from penstock.pipelines import Settings
from penstock.pipelines.runtime.runner import Run
from penstock.streams import Streams
from penstock.streams import json as as_json
from penstock.streams.runtime.application import open_run
from tests.pipelines.committed import read_committed, unique

pytestmark = pytest.mark.timeout(300)


class Orders:
    """Topics are made as they are filled; all of them are copied to one."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap, self.prefix = bootstrap, unique("orders")
        self.all = f"all-{self.prefix}"
        self.settings = Settings(
            bootstrap_servers=bootstrap, checkpoint=str(directory), parallelism=1, publish_runs=False
        )
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def app(self) -> Streams:
        app = Streams(f"app-{self.prefix}", self.settings)
        pattern = re.compile(f"{re.escape(self.prefix)}-.*")
        app.stream(pattern, value=as_json("n int")).to(self.all)
        return app

    def fill(self, topic: str, numbers: Iterable[int]) -> None:
        name = f"{self.prefix}-{topic}"
        if name not in self._admin.list_topics(timeout=30).topics:
            self._admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in numbers:
            producer.produce(name, json.dumps({"n": number}), topic)
        assert producer.flush(30) == 0

    def copied(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for message in read_committed(self.bootstrap, self.all):
            found.setdefault((message.key() or b"").decode(), []).append(json.loads(message.value() or b"")["n"])
        return found


def written(run: Run) -> int:
    return sum(count for query in run.progress() for count in query.written.values())


def test_a_topic_is_read_from_its_beginning_when_it_is_made_while_a_pattern_is_read(
    spark: SparkSession, bootstrap: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders = Orders(bootstrap, tmp_path)
    run = open_run(spark, orders.app())
    run.start()
    assert f"there are no topics like {re.escape(orders.prefix)}-.* yet" in caplog.text
    made: list[str] = []

    def go_on(_: Run) -> None:
        if not made:
            made.append("eu")
            orders.fill("eu", [1])
        elif written(run) == 1 and "us" not in made:
            made.append("us")
            orders.fill("us", range(5))
        elif written(run) == 6:
            run.stop()

    run.wait(go_on, for_s=120)
    assert orders.copied() == {"eu": [1], "us": [0, 1, 2, 3, 4]}
