"""Which topics, groups and order an application's queries have, what is refused, and what may be purged."""

from __future__ import annotations

import json
import re

import pytest
from confluent_kafka.admin import AdminClient

from penstock.core.types import TopicPartition
from penstock.pipelines import Settings
from penstock.pipelines.pipeline import Branch
from penstock.pipelines.runtime.query_plan import plan_queries
from penstock.pipelines.runtime.runner import groups_of
from penstock.streams import Streams
from penstock.streams import json as as_json
from penstock.streams.planner.plan import TopicKind
from penstock.streams.runtime.identity import FILE_NAME, check_identity
from penstock.streams.runtime.pipelines import pipeline_of, topic_of
from penstock.streams.runtime.purge import purge_read, purgeable
from penstock.streams.runtime.topics import internal_topics, plan_topics, read_now, table_topics
from penstock.streams.topology.errors import StreamsError


class MemoryFiles:
    def __init__(self, **files: str) -> None:
        self.files = {name.replace("__", "/"): text for name, text in files.items()}

    def read(self, name: str) -> str | None:
        return self.files.get(name)

    def write(self, name: str, text: str) -> None:
        self.files[name] = text

    def list(self, name: str) -> frozenset[str]:
        return frozenset(each.removeprefix(f"{name}/") for each in self.files if each.startswith(f"{name}/"))


def shop(condition: str = "n > 0", dead_letters: str | None = None, store: str = "per-user") -> Streams:
    app = Streams("shop", dead_letters=dead_letters)
    clicks = app.stream("clicks", value=as_json("user string, n int"))
    app.table("users", value=as_json("name string")).to("copied", config={"cleanup.policy": "compact"})
    clicks.repartition("spread", partitions=5).filter(condition).group_by("user").count(name=store).to("counted")
    return app


def test_topics_have_the_config_of_their_kind_and_the_largest_sources_partitions_when_planned() -> None:
    topics = {topic.name: topic for topic in plan_topics(shop(dead_letters="dead").plan(), {"clicks": 3, "users": 4})}
    assert {name: (topic.kind, topic.partitions) for name, topic in topics.items()} == {
        "shop-spread-repartition": (TopicKind.REPARTITION, 5),
        "copied": (TopicKind.SINK, 4),
        "shop-per-user-changelog": (TopicKind.CHANGELOG, 4),
        "counted": (TopicKind.SINK, 4),
        "dead": (TopicKind.SINK, 4),
    }
    assert topics["shop-spread-repartition"].config["retention.ms"] == "-1"
    assert topics["shop-per-user-changelog"].config["cleanup.policy"] == "compact"
    assert topics["copied"].config == {"cleanup.policy": "compact"}
    assert internal_topics(shop().plan()) == ("shop-spread-repartition", "shop-per-user-changelog")
    assert table_topics(shop().plan()) == {"users"}


def test_each_query_is_a_branch_behind_those_that_write_what_it_reads_when_there_is_a_cut() -> None:
    pipeline = pipeline_of(shop(dead_letters="dead").plan(), Settings())
    assert [(plan.name, plan.after, plan.mode) for plan in plan_queries(pipeline)] == [
        ("from-clicks", (), "append"),
        ("from-users", (), "append"),
        ("dead-letters", (), "append"),
        ("per-user", ("from-clicks",), "update"),
    ]
    assert groups_of(pipeline)["shop/per-user"] == "shop-per-user"
    (counting,) = [sink for sink in pipeline.sinks if sink.name == "per-user"]
    assert isinstance(counting, Branch)
    assert counting.sources[0].describe() == "topic shop-spread-repartition"


def test_only_what_is_committed_is_read_unless_the_application_says_otherwise_of_topics_of_others() -> None:
    plan, dirty = shop().plan(), Settings(kafka={"isolation.level": "read_uncommitted"})
    isolation = "kafka.isolation.level"
    assert topic_of(plan, "from-clicks", Settings()).options[isolation] == "read_committed"
    assert topic_of(plan, "from-clicks", dirty).options[isolation] == "read_uncommitted"
    assert topic_of(plan, "spread", dirty).options[isolation] == "read_committed"


def test_a_pattern_is_passed_on_and_its_topics_are_found_within_a_second_when_it_is_read() -> None:
    app = Streams("all", fail_on_data_loss=False)
    app.stream(re.compile("orders-.*"), value=as_json("n int")).to("counted")
    app.stream("clicks", value=as_json("n int")).to("orders-clicked")
    plan = app.plan()
    options = topic_of(plan, "from-pattern-1", Settings()).reader_options(Settings())
    assert "subscribe" not in options
    assert options["subscribePattern"] == "orders-.*"
    assert (options["partition.metadata.cache.ttl.ms"], options["failOnDataLoss"]) == ("1000", "false")
    assert [(each.name, each.after) for each in plan_queries(pipeline_of(plan, Settings()))] == [
        ("from-clicks", ()),
        ("from-pattern-1", ("from-clicks",)),
    ]


def test_a_pattern_that_finds_where_the_run_publishes_its_state_is_refused() -> None:
    app = Streams("all")
    app.stream(re.compile("_.*"), value=as_json("n int")).to("out")
    with pytest.raises(StreamsError, match="would read _penstock_runs, where runs publish their state"):
        pipeline_of(app.plan(), Settings())


def test_topics_get_the_partitions_of_what_a_pattern_finds_when_they_are_made() -> None:
    there = {"orders-eu": 3, "orders-us": 7, "__consumer_offsets": 50, "others": 9, "clicks": 2}
    assert read_now([re.compile(".*orders-.*"), "clicks", "missing"], there) == {
        "orders-eu": 3,
        "orders-us": 7,
        "clicks": 2,
    }
    assert "__consumer_offsets" not in read_now([re.compile(".*")], there)
    assert read_now(["__consumer_offsets"], there) == {"__consumer_offsets": 50}


def test_sparks_own_connector_is_refused_because_it_writes_no_times() -> None:
    with pytest.raises(StreamsError, match="at least once, and no times"):
        pipeline_of(shop().plan(), Settings(engine="jvm"))


def test_a_checkpoint_is_refused_with_the_difference_when_the_topology_or_a_tables_partitions_changed() -> None:
    files = MemoryFiles()
    check_identity(files, shop().plan(), {"users": 4})
    noted = files.files[FILE_NAME]
    check_identity(files, shop().plan(), {"users": 4})
    assert files.files[FILE_NAME] == noted
    with pytest.raises(StreamsError, match=r"per-user.*n > 0.*n > 1") as changed:
        check_identity(files, shop("n > 1").plan(), {"users": 4})
    assert "penstock streams reset" in changed.value.hint
    with pytest.raises(StreamsError, match="users has 5 partitions, and had 4 when shop began"):
        check_identity(files, shop().plan(), {"users": 5})
    files.files[FILE_NAME] = "{"
    with pytest.raises(StreamsError, match=r"topology\.json of the checkpoint cannot be read"):
        check_identity(files, shop().plan(), {"users": 4})


def test_a_query_that_comes_back_is_compared_with_what_it_was_when_it_had_gone() -> None:
    files, without = MemoryFiles(), Streams("shop")
    check_identity(files, shop().plan(), {})
    without.table("users", value=as_json("name string")).to("copied")
    check_identity(files, without.plan(), {})
    assert set(json.loads(files.files[FILE_NAME])["gone"]) == {"from-clicks", "per-user"}
    check_identity(files, shop().plan(), {})
    check_identity(files, without.plan(), {})
    with pytest.raises(StreamsError, match=r"n > 0.*n > 1"):
        check_identity(files, shop("n > 1").plan(), {})


def offsets_file(topic: str, **ends: int) -> str:
    return "\n".join(["v1", "{}", json.dumps({topic: {name[1:]: end for name, end in ends.items()}})])


def test_what_is_before_the_last_finished_batch_may_go_when_a_repartition_topic_was_read() -> None:
    topic, plan = "shop-spread-repartition", shop().plan()
    files = MemoryFiles(**{"per-user__commits__0": "v1", "per-user__offsets__0": offsets_file(topic, p0=3, p1=1)})
    assert purgeable(files, plan) == {}  # the first batch may be looked at again
    files.write("per-user/offsets/1", offsets_file(topic, p0=7, p1=2))
    files.write("per-user/commits/1", "v1")
    files.write("per-user/offsets/2", offsets_file(topic, p0=9, p1=9))  # not finished
    assert purgeable(files, plan) == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 1}


def test_only_what_both_readings_have_read_may_go_when_a_query_reads_a_topic_twice() -> None:
    topic, plan = "shop-spread-repartition", shop().plan()
    twice = "\n".join([offsets_file(topic, p0=3, p1=8), json.dumps({topic: {"0": 5, "1": 6}})])
    files = MemoryFiles(**{"per-user__commits__1": "v1", "per-user__offsets__0": twice})
    assert purgeable(files, plan) == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 6}


class BrokenFiles(MemoryFiles):
    def list(self, name: str) -> frozenset[str]:
        raise OSError("the disk is away")


def test_a_run_goes_on_when_the_checkpoint_cannot_be_read_for_a_purge(caplog: pytest.LogCaptureFixture) -> None:
    purge_read(AdminClient({}), BrokenFiles(), shop().plan(), {})
    assert "the disk is away" in caplog.text
