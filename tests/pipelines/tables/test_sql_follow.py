"""Questions as streams: what comes in which batch, output modes, and where rows go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.followed_query import FollowOptions, follow, plan_following, start_options
from penstock.pipelines.sql.tables import Tables, register
from tests.pipelines.committed import make_topic, read_committed
from tests.pipelines.topics import Topics

pytestmark = pytest.mark.timeout(600)
TIMEOUT_S = 200.0
FIRST_MS = 1_700_000_000_000
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def tables(spark: SparkSession, bootstrap: str) -> Iterator[Tables]:
    with register(spark, bootstrap, has_views=False) as opened:
        yield opened


@pytest.fixture
def topic(bootstrap: str) -> str:
    topic = make_topic(bootstrap, "followed", retention_ms="-1")
    produce(bootstrap, topic, 0, 1, 2, 3)
    return topic


def produce(bootstrap: str, topic: str, *minutes: int) -> None:
    producer = Topics(bootstrap).producer()
    for minute in minutes:
        value = json.dumps({"id": minute, "error": "none", "source": "s"})
        producer.produce(topic, value, f"k{minute % 2}", timestamp=FIRST_MS + minute * MINUTE_MS)
    assert producer.flush(30) == 0


class Seen:
    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.notices: list[str] = []

    def keep(self, rows: DataFrame, _: int) -> None:
        self.rows += sorted(tuple(row) for row in rows.collect())


def run_once(tables: Tables, text: str, directory: Path, **options: Any) -> Seen:
    seen = Seen()
    chosen = FollowOptions(start="earliest", once=True, checkpoint=directory, trigger="50 milliseconds", **options)
    run = follow(tables, text, seen.keep, chosen, on_notice=seen.notices.append)
    run.wait(for_s=TIMEOUT_S)
    return seen


def mode_of(tables: Tables, text: str, **options: Any) -> str:
    pipeline = plan_following(tables, text, lambda rows, number: None, FollowOptions(**options))
    return getattr(pipeline.sinks[0], "mode", "append")


def test_rows_come_once_when_a_question_is_followed_again(
    tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    text = f"SELECT id, error, source, _key FROM `{topic}` WHERE id > 1"
    assert run_once(tables, text, tmp_path).rows == [(2, "none", "s", "k0"), (3, "none", "s", "k1")]
    produce(bootstrap, topic, 4)
    assert run_once(tables, text, tmp_path).rows == [(4, "none", "s", "k0")]


def test_groups_come_again_when_they_change_and_nobody_gave_a_watermark(
    tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    text = f"SELECT unix_timestamp(window.start), count(*) FROM `{topic}` GROUP BY window(_timestamp, '2 minutes')"
    first = FIRST_MS // 120_000 * 120
    seen = run_once(tables, text, tmp_path)
    assert [count for _, count in seen.rows] == [1, 2, 1] or [count for _, count in seen.rows] == [2, 2]
    assert seen.rows[0][0] == first
    assert seen.notices[-1] == f"rows of {topic} that are older than the newest by 600 seconds are late"
    produce(bootstrap, topic, 3)
    assert len(run_once(tables, text, tmp_path).rows) == 1


def test_the_output_mode_is_the_first_that_the_question_allows(tables: Tables, topic: str) -> None:
    windows = f"SELECT window.start AS at, count(*) FROM `{topic}` GROUP BY window(_timestamp, '1 minute')"
    assert mode_of(tables, f"SELECT id FROM `{topic}`") == "append"
    assert mode_of(tables, f"SELECT _key, count(*) FROM `{topic}` GROUP BY _key") == "update"
    assert mode_of(tables, f"SELECT _key, count(*) AS n FROM `{topic}` GROUP BY _key ORDER BY n") == "complete"
    assert mode_of(tables, windows) == "update"
    assert mode_of(tables, windows, watermarks={topic: ("_timestamp", "1 minute")}) == "update"
    assert mode_of(tables, windows, parquet="/tmp/nowhere") == "append"
    assert mode_of(tables, windows, mode="complete") == "complete"
    clause = f"`{topic}` WATERMARK _timestamp DELAY OF INTERVAL 1 MINUTE"
    assert mode_of(tables, windows.replace(f"`{topic}`", clause), parquet="/tmp/nowhere") == "append"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("SELECT id FROM `{topic}` ORDER BY id", {}, "Spark cannot follow this question"),
        ("SELECT _key, count(*) FROM `{topic}` GROUP BY _key", {"mode": "append"}, "watermark"),
        ("SELECT 1", {}, "no topic that could be followed"),
        ("SHOW TABLES", {}, "only a question or an INSERT INTO can be followed"),
        ("SELECT id FROM `{topic}`", {"start": "soon"}, "'soon' is no place to start at"),
        ("SELECT id FROM `{topic}`", {"watermarks": {"": ("when", "1 minute")}}, "has no column when"),
    ],
)
def test_the_reason_is_said_when_a_question_cannot_be_followed(
    tables: Tables, topic: str, text: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SqlError) as raised:
        plan_following(tables, text.format(topic=topic), lambda rows, number: None, FollowOptions(**options))
    assert said in raised.value.message


def test_each_row_is_in_the_topic_once_when_an_insert_is_followed_again(
    tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    text = f"INSERT INTO {target} SELECT _key, id FROM `{topic}`"
    run_once(tables, text, tmp_path)
    produce(bootstrap, topic, 4)
    run_once(tables, text, tmp_path)
    found = [(message.key(), json.loads(message.value() or b"")) for message in read_committed(bootstrap, target)]
    assert found == [(f"k{number % 2}".encode(), {"id": number}) for number in range(5)]


def test_a_start_is_a_place_or_a_time() -> None:
    assert start_options("beginning") == {"startingOffsets": "earliest"}
    assert start_options("2023-11-14T22:13:20Z")["startingTimestamp"] == "1700000000000"
    assert start_options("1700000000000")["startingTimestamp"] == "1700000000000"
