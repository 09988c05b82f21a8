"""The decisions around a run: consumer groups, the session's settings, what is said about a failed batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines import Branch, Pipeline, Settings, Topic
from penstock.pipelines.causes import first_cause
from penstock.pipelines.runtime.postmortem import FailedBatch
from penstock.pipelines.runtime.runner import groups_of, keep_private
from penstock.pipelines.runtime.spark.session import local_environment, session_settings
from tests.unit.pipelines.pieces import Nowhere, count_them


@dataclass(frozen=True)
class NeedsHive(Nowhere):
    session_settings: ClassVar[Mapping[str, str]] = {"spark.sql.catalogImplementation": "hive"}


def pipeline(*sinks: Nowhere | Branch, settings: Settings | None = None) -> Pipeline:
    return Pipeline("jobs", (Topic("t"),), sinks, settings=settings or Settings())


def counting(name: str) -> Branch:
    return Branch(name, (Nowhere(f"sink of {name}"),), (count_them,), stateful=True)


def test_each_query_has_a_group_when_a_pipeline_has_several() -> None:
    assert groups_of(pipeline(Nowhere("a"), counting("x"), counting("y"))) == {
        "jobs/main": "penstock-jobs",
        "jobs/x": "penstock-jobs-x",
        "jobs/y": "penstock-jobs-y",
    }


def test_a_query_keeps_its_group_when_others_come_and_go_that_read_other_sources() -> None:
    alone = Branch("alone", (Nowhere("a"),), sources=(Topic("u"),))
    other = Branch("other", (Nowhere("b"),), sources=(Topic("v"),))
    assert groups_of(Pipeline("jobs", (), (alone,))) == {"jobs/alone": "penstock-jobs-alone"}
    assert groups_of(pipeline(other, alone, counting("x"))) == {
        "jobs/other": "penstock-jobs-other",
        "jobs/alone": "penstock-jobs-alone",
        "jobs/x": "penstock-jobs",
    }


def test_the_only_query_has_the_pipelines_group_when_it_is_a_branch() -> None:
    assert groups_of(pipeline(counting("x"), settings=Settings(group_id="mine"))) == {"jobs/x": "mine"}


def test_what_a_sink_needs_is_set_and_what_the_user_says_wins_when_a_session_is_opened() -> None:
    given = Settings(parallelism=3, spark={"spark.ui.enabled": "true", "spark.app.name": "mine"})
    chosen = session_settings(pipeline(NeedsHive("a"), settings=given), "local[2]")
    assert chosen["spark.sql.catalogImplementation"] == "hive"
    assert chosen["spark.sql.shuffle.partitions"] == "3"
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.master"] == "local[2]"
    assert chosen["spark.app.name"] == "mine"


def test_nothing_local_is_set_when_the_master_is_elsewhere() -> None:
    chosen = session_settings(pipeline(Nowhere("a")), "spark://somewhere:7077")
    assert "spark.driver.host" not in chosen
    assert "spark.sql.shuffle.partitions" not in chosen


def test_the_file_for_the_jvms_log_is_there_when_the_environment_names_it() -> None:
    options = local_environment()["SPARK_SUBMIT_OPTS"].split()
    (named,) = [option.partition("file://")[2] for option in options if "log4j2" in option]
    with open(named, encoding="utf-8") as file:
        assert "rootLogger.level = error" in file.read()


def test_partitions_and_offsets_are_named_when_a_batch_has_failed() -> None:
    first = FailedBatch(0, (({}, {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}),))
    later = FailedBatch(
        3,
        (
            ({TopicPartition("t", 0): 5}, {TopicPartition("t", 0): 9}),
            ({TopicPartition("u", 2): 1}, {TopicPartition("u", 2): 2}),
        ),
    )
    assert str(first) == "topic t, partition 0, offsets 0 to 4"
    assert str(later) == "topic t, partition 0, offsets 5 to 8; topic u, partition 2, offsets 1 to 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[STREAM_FAILED] Query ended\nTraceback (most recent call):\n  File x\nValueError: bad number\n\tat org",
            "ValueError: bad number",
        ),
        (
            "java.lang.Exception: x\norg.apache.spark.SparkException: y\npyspark.errors.PySparkException: real",
            "pyspark.errors.PySparkException: real",
        ),
        (
            "org.apache: [USER_RAISED_EXCEPTION] two is not welcome SQLSTATE: P0001\n\tat x",
            "[USER_RAISED_EXCEPTION] two",
        ),
        ("nothing that we know\nmore", "nothing that we know"),
    ],
)
def test_the_cause_is_found_when_spark_wraps_it_in_a_hundred_lines(text: str, expected: str) -> None:
    assert first_cause(text).startswith(expected)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_checkpoint_is_its_owners_alone_when_it_is_made_whatever_the_umask(scheme: str, tmp_path: Path) -> None:
    """Everybody on the machine could read the state and the offsets of a pipeline."""
    made, there = tmp_path / "new" / "jobs", tmp_path / "there"
    there.mkdir(mode=0o750)
    before = os.umask(0)
    try:
        keep_private(f"{scheme}{made}", "file:///")
        keep_private(f"{scheme}{there}", "file:///")
        keep_private("s3a://bucket/jobs", "file:///")
        keep_private(str(tmp_path / "on another machine"), "hdfs://namenode:8020")
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == 0o700
    assert there.stat().st_mode & 0o777 == 0o750  # its owner has made it so
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "there"]
