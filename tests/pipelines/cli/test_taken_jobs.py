"""What Spark would take is not refused before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.cli.main import main
from penstock.pipelines import Pipeline
from penstock.pipelines.errors import RefusedLoginError
from penstock.pipelines.runtime.query_plan import plan_queries
from penstock.pipelines.runtime.spark import session
from penstock.pipelines.topic_source import Topic
from penstock.streams.runtime.application import pipeline_for
from tests.pipelines.cli import taken_jobs
from tests.pipelines.cli.no_spark import STARTED, forbid_spark
from tests.pipelines.cli.taken_jobs import GONE

NOBODY = "127.0.0.1:1"
REFUSED = f"Error: the source {GONE} cannot be read: the topic {GONE} does not exist\n"

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    forbid_spark(monkeypatch)

    def run_job(name: str, servers: str, command: str = "pipeline") -> int:
        return main([command, "run", f"{taken_jobs.__name__}:{name}", "--once", "-b", servers])

    return run_job


@pytest.mark.parametrize(
    ("command", "pipeline"),
    [("pipeline", taken_jobs.lossy), ("streams", pipeline_for(taken_jobs.lossy_stream))],
    ids=["pipeline", "streams"],
)
def test_a_source_may_be_gone_when_losses_are_allowed_and_its_query_has_begun_before(
    command: str, pipeline: Pipeline, run: Run, bootstrap: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    offsets = tmp_path / "checkpoints" / pipeline.name / plan_queries(pipeline)[0].name / "offsets"
    for made in (None, offsets.parent.parent, offsets):  # by an operator, or by a start that failed: nothing was read
        if made is not None:
            made.mkdir(parents=True)
        assert run(pipeline.name, bootstrap, command) == 1
        assert capfd.readouterr().err.startswith(REFUSED)
    (offsets / "0").touch()
    assert run(pipeline.name, bootstrap, command) == 1
    assert capfd.readouterr().err == STARTED


def test_a_login_that_a_step_finds_refused_has_an_exit_code_of_its_own(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Refused:
        def check(self, pipeline: Pipeline) -> None:
            raise RefusedLoginError("the brokers refuse the login")

        def __call__(self, rows: DataFrame) -> DataFrame:
            return rows

    monkeypatch.setattr(taken_jobs, "files", replace(taken_jobs.files, steps=(Refused(),)))
    assert run("files", bootstrap) == 3
    assert capfd.readouterr().err == "Error: the brokers refuse the login\n"


def test_other_brokers_need_not_answer_when_all_topics_name_their_own(
    run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    own = Topic(GONE, options={"Kafka.Bootstrap.Servers": bootstrap})
    monkeypatch.setattr(taken_jobs, "lossy", replace(taken_jobs.lossy, sources=(own,)))
    assert run("lossy", NOBODY) == 1
    assert capfd.readouterr().err.startswith(REFUSED)


def test_a_pipeline_without_topics_runs_when_no_broker_is_in_reach(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "open_session", lambda *_: spark)
    monkeypatch.setattr(session, "stop_session", lambda _: None)
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "first").write_text("a line of a file\n")
    assert run("files", NOBODY) == 0
    assert "a line of a file" in capfd.readouterr().out
