"""How often each word occurs in the lines of a topic, kept up to date in a compacted topic.

    penstock topics create lines
    echo 'to be or not to be' | penstock produce lines
    penstock pipeline run examples/word_count.py --once
    penstock consume word-counts --from beginning --exit

Topics of other names: --set source=... --set target=...
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipelines import Branch, Pipeline, Topic
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink


def words(rows: DataFrame) -> DataFrame:
    """One row per word; a record's value is bytes until it is cast."""
    lines = F.lower(F.col("value").cast("string"))
    return rows.select(F.explode(F.split(lines, r"[^\p{L}\p{N}']+")).alias("word")).where("word <> ''")


def count_words(rows: DataFrame) -> DataFrame:
    return rows.groupBy("word").count()


def word_count(source: str = "lines", target: str = "word-counts") -> Pipeline:
    counts = TopicSink(
        target,
        key="word",
        value="CAST(count AS STRING)",
        create=TopicSettings(config={"cleanup.policy": "compact"}),
    )
    return Pipeline(
        name="word-count",
        sources=(Topic(source),),
        steps=(words,),
        # Counting holds state, so the branch says so; "update" writes the counts that changed, and nothing else.
        sinks=(Branch("counts", steps=(count_words,), sinks=(counts,), stateful=True, mode="update"),),
    )
