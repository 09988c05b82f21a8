"""What Spark refuses is said of the node, in one line."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.streams import Streams, TopologyTest, json
from penstock.streams.topology.errors import StreamsError


@pytest.mark.parametrize(
    ("condition", "said"),
    [("usr = 'a'", r"Filter paying: .*usr"), ("user ===== AND", r"Filter paying: .*[Ss]yntax")],
)
def test_the_node_is_named_when_its_expression_is_wrong(spark: SparkSession, condition: str, said: str) -> None:
    app = Streams("wrong")
    app.stream("clicks", value=json("user string")).filter(condition, name="paying").to("out")
    with TopologyTest(app, spark) as test:
        test.pipe("clicks", [{"user": "a"}])
        with pytest.raises(StreamsError, match=said) as refused:
            test.read("out")
    assert "\n" not in refused.value.message
