"""Applications and a real broker: what reaches topics, how a run goes on, what is refused, what a reset leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, ResourceType
from pyspark.sql import SparkSession

from penstock.pipelines import Settings
from penstock.streams import Streams
from penstock.streams import json as as_json
from penstock.streams.runtime.application import open_run
from penstock.streams.runtime.checkpoints import CheckpointFiles
from penstock.streams.runtime.purge import purge, purgeable
from penstock.streams.runtime.reset import forget_application
from penstock.streams.topology.errors import StreamsError
from tests.pipelines.committed import make_topic, read_committed, unique

pytestmark = pytest.mark.timeout(600)
T0 = 1_780_000_000_000


def last_values(bootstrap: str, topic: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for message in read_committed(bootstrap, topic):
        value = message.value()
        found[(message.key() or b"").decode()] = None if value is None else json.loads(value)
    return found


class Shop:
    """Clicks per user, and how many users have clicked so often: a topic that is asked for, and two cuts."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.name = unique("shop")
        self.clicks = make_topic(bootstrap, "clicks", 2)
        self.users, self.totals, self.bobs = unique("per-user"), unique("totals"), make_topic(bootstrap, "bobs")
        self.settings = Settings(
            bootstrap_servers=bootstrap, checkpoint=str(directory / "checkpoint"), parallelism=2, publish_runs=False
        )

    def app(self, condition: str = "url <> '/ignored'", dead_letters: str | None = None) -> Streams:
        app = Streams(self.name, self.settings, dead_letters)
        clicks = app.stream(self.clicks, value=as_json("user string, url string"))
        counted = clicks.repartition("spread").filter(condition).group_by("user").count(name="per-user")
        chosen = f"if(user = 'bob', '{self.bobs}', null)"
        counted.to(self.users, partition="if(user = 'ann', 1, null)", topic_of=chosen)
        counted.to_stream().group_by(clicks="count").count(into="users").to(self.totals)
        return app

    def click(self, *users: str | None, at_ms: int = T0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number, user in enumerate(users):
            value = json.dumps({"user": user, "url": "/"}) if user != "broken" else "{"
            producer.produce(self.clicks, value, user, timestamp=at_ms + number)
        assert producer.flush(30) == 0

    def run_once(
        self, spark: SparkSession, app: Streams, beside: Callable[[], object] | None = None
    ) -> Mapping[str, Mapping[str, int]]:
        """`beside` is called while it runs."""
        run = open_run(spark, app, once=True)
        run.start()
        if beside is not None:
            beside()
        run.wait(for_s=300)
        self.left_out = {reason: count for query in run.progress() for reason, count in query.left_out.items()}
        return {query.query.partition("/")[2]: query.written for query in run.progress()}

    def config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        answer = admin.describe_configs([resource])[resource].result(30)
        return {name: entry.value for name, entry in answer.items()}


@pytest.fixture
def shop(bootstrap: str, tmp_path: Path) -> Shop:
    return Shop(bootstrap, tmp_path)


def test_a_chain_of_queries_counts_on_and_starts_over_when_run_again_and_reset(spark: SparkSession, shop: Shop) -> None:
    app = shop.app()
    shop.click("ann", "bob", "ann")
    written = shop.run_once(spark, app)
    assert len(written) == 3
    spread, changelog = f"{shop.name}-spread-repartition", f"{shop.name}-per-user-changelog"
    assert sum(written[f"from-{shop.clicks}"].values()) == 3
    assert shop.config(changelog)["cleanup.policy"] == "compact"
    assert shop.config(spread)["retention.ms"] == "-1"
    users = {message.key(): message for message in read_committed(shop.bootstrap, shop.users)}
    assert json.loads(users[b"ann"].value() or b"") == {"user": "ann", "count": 2}
    assert users[b"ann"].timestamp()[1] == T0 + 2  # the event's time
    assert [(key, message.partition()) for key, message in users.items()] == [(b"ann", 1)]
    assert last_values(shop.bootstrap, shop.bobs) == {"bob": {"user": "bob", "count": 1}}
    assert {message.key() for message in read_committed(shop.bootstrap, changelog)} == {b'"ann"', b'"bob"'}
    assert last_values(shop.bootstrap, shop.totals) == {
        "1": {"clicks": 1, "users": 1},
        "2": {"clicks": 2, "users": 1},
    }
    # The state is there when it goes on, and what nobody asks for again can go. There is one driver at a time.
    shop.click("ann", at_ms=T0 + 10)

    def refused_beside() -> None:
        with pytest.raises(StreamsError, match=f"another driver runs {shop.name}: process {os.getpid()} on "):
            open_run(spark, app).start()
        with pytest.raises(StreamsError, match=f"another driver runs {shop.name}"):
            list(forget_application(app))

    shop.run_once(spark, app, beside=refused_beside)
    assert last_values(shop.bootstrap, shop.users)["ann"] == {"user": "ann", "count": 3}
    files = CheckpointFiles(spark, shop.settings.checkpoint)
    begins = purgeable(files, app.plan())
    assert {place.topic for place in begins} == {spread}
    purge(AdminClient({"bootstrap.servers": shop.bootstrap}), begins, {})
    assert len(read_committed(shop.bootstrap, spread)) == 1
    # Another condition would mix two meanings in one state.
    with pytest.raises(
        StreamsError, match=r"is not what its checkpoint is from: query .* was url <> '/ignored', is"
    ) as no:
        shop.run_once(spark, shop.app("url <> '/other'"))
    assert "penstock streams reset" in no.value.hint
    # A table's topic that has more partitions has its keys elsewhere.
    admin = AdminClient({"bootstrap.servers": shop.bootstrap})
    admin.create_partitions([NewPartitions(changelog, 4)])[changelog].result(30)
    with pytest.raises(StreamsError, match=f"{changelog} has 4 partitions, and had 2"):
        shop.run_once(spark, app)
    # A checkpoint that went without its topics would count their rows again.
    checkpoint = Path(shop.settings.checkpoint)
    checkpoint.rename(kept := checkpoint.with_name("kept"))
    with pytest.raises(StreamsError, match=r"the checkpoint is new, and the topic .* has rows of an earlier run"):
        shop.run_once(spark, app)
    kept.rename(checkpoint)
    done = list(forget_application(app))
    assert f"deleted the topic {spread}" in done
    assert not Path(shop.settings.checkpoint).exists()
    shop.run_once(spark, shop.app("url <> '/other'", dead_letters=unique("dead")))
    assert last_values(shop.bootstrap, changelog) == {
        '"ann"': {"user": "ann", "count": 3},
        '"bob"': {"user": "bob", "count": 1},
    }


def test_records_that_do_not_decode_are_letters_or_end_the_run(spark: SparkSession, shop: Shop) -> None:
    shop.click("ann", "broken", None)
    with pytest.raises(Exception, match=rf"not the expected JSON \(topic {shop.clicks}, partition ., offset"):
        shop.run_once(spark, shop.app())
    dead = unique("dead")
    written = shop.run_once(spark, shop.app(dead_letters=dead))
    assert written["dead-letters"] == {"dead-letters": 1}
    (letter,) = read_committed(shop.bootstrap, dead)
    assert (letter.key(), letter.value()) == (b"broken", b"{")
    assert last_values(shop.bootstrap, shop.users) == {"ann": {"user": "ann", "count": 1}}
    assert shop.left_out == {"null_keys": 1}  # a click of nobody is in no group
