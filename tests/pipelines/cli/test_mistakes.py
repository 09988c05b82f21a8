"""What people see when a job on Spark is wrong: one sentence, what to do, and nothing else. All output is compared.

Most mistakes are found before Spark starts, and there is no Spark here for them: a start would fail. For the others all
share one session. What a JVM of its own says is seen once, in the last test."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.cli.commands.sql import app as sql_app
from penstock.cli.main import main
from penstock.pipelines import spark_log
from penstock.pipelines.runtime.spark import session
from penstock.pipelines.spark_log import PYSPARK_LOGGERS, SparkLog, take_over_logs
from penstock.pipelines.sql.sql_session import Known, SqlSession, Wishes
from penstock.pipelines.sql.tables import Tables
from tests.pipelines.cli import mistaken_jobs
from tests.pipelines.cli.mistaken_jobs import MADE, ORDERS, OUT
from tests.pipelines.cli.no_spark import forbid_spark, start

JOBS = mistaken_jobs.__file__
NOBODY = "127.0.0.1:1"
NO_BROKER = (
    f"Error: no broker answers at {NOBODY} (Connection refused)\n"
    "Name one with --bootstrap-server or PENSTOCK_BOOTSTRAP, or start one: penstock broker start --data DIR\n"
)
NO_MASTER = (
    f"Error: no Spark master answers at {NOBODY} (Connection refused)\n"
    "Start it, or name another one with --master; local[*] is this machine.\n"
)
NO_TOPIC = (
    "Error: the source mistaken-ordres cannot be read: the topic mistaken-ordres does not exist\n"
    "Did you mean mistaken-orders? `penstock topics create mistaken-ordres` makes it.\n"
)
NO_TABLE = "Error: there is no topic mistaken_ordres at BROKER\nDid you mean mistaken-orders?\n"
STARTING = "starting Spark ...\nSpark is up after N s\nopening ...\n"
CAST = (
    """[CAST_INVALID_INPUT] The value '{"id": 1, "name": "a"}' of the type "STRING" cannot be cast to "INT" because"""
    " it is malformed. Correct the value as per the syntax, or change its target type. Use `try_cast` to tolerate"
    " malformed input and return NULL instead."
)
FAILED_BATCH = f"batch 0 failed at the step STEP: {CAST} It read topic {ORDERS}, partition 0, offsets 0 to 0.\n"
COMES_AGAIN = (
    "Nothing of it is lost: it comes again, with the same records, when the pipeline is started again.\n"
    "What Spark said is in LOG\n"
)


class Mistake(NamedTuple):
    command: str
    arguments: tuple[str, ...]
    told: str
    shown: str = ""  # on standard output
    code: int = 1


def run(name: str, *arguments: str) -> tuple[str, ...]:
    return ("run", f"{JOBS}:{name}", "--once", *arguments)


BEFORE_SPARK = [
    Mistake("pipeline", run("no_topic"), NO_TOPIC),
    Mistake(
        "pipeline",
        run("no_sink"),
        "Error: the sink mistaken-uot cannot be used: the topic mistaken-uot does not exist\n"
        "Did you mean mistaken-out? Create it, or say how: TopicSink(..., create=TopicSettings(partitions=3)).\n",
    ),
    Mistake(
        "pipeline",
        run("bad_name"),
        "Error: the source a name cannot be read: 'a name' is no name that a topic can have\n",
    ),
    Mistake(
        "pipeline",
        run("bad_start"),
        "Error: the source mistaken-orders cannot be read: option startingOffsets is 'nowhere'; it accepts earliest,"
        """ latest, group or offsets per partition such as {"topic":{"0":23,"1":-2}}\n""",
    ),
    Mistake("pipeline", run("sinkless"), "Error: the pipeline 'sinkless' has no sinks\n"),
    Mistake(
        "pipeline",
        run("no_registry"),
        "Error: the step from_registry(the topic's value, latest) cannot be used: the schema registry cannot be"
        " reached: no schema registry answers: http://127.0.0.1:1 (Connection refused)\n"
        "Start it, or see what registry.url says.\n",
    ),
    Mistake("pipeline", run("good", "-b", NOBODY), NO_BROKER, code=3),
    Mistake(
        "pipeline",
        run("good", "--set", "kafka.no.such=1"),
        "Error: the source mistaken-orders cannot be read: option kafka.no.such is not a setting that librdkafka, or"
        " the Java client, knows\n",
    ),
    Mistake(
        "pipeline",
        run("good", "--master", "lcoal"),
        "Error: there is no Spark master 'lcoal'\nMasters are local[*], spark://HOST:PORT, yarn and k8s://HOST:PORT.\n",
    ),
    Mistake("pipeline", run("good", "--master", f"spark://{NOBODY}"), NO_MASTER),
    Mistake(
        "pipeline",
        run("good", "--master", "yarn"),
        "Error: the master yarn needs Hadoop's configuration, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set\n"
        "Set one of them to the directory with yarn-site.xml.\n",
    ),
    Mistake(
        "pipeline",
        run("good", "--set", "checkpoint=file/of/mine"),
        "Error: the checkpoint file/of/mine cannot be used: DIR/file is a file, not a directory\n",
    ),
    Mistake(
        "pipeline",
        run("good", "--set", "trigger=realtime"),
        "Error: the query main works batch by batch, and has no rows in real time\n"
        "Only applications (penstock.streams) have the trigger realtime: leave it out.\n",
    ),
    Mistake(
        "pipeline",
        ("run", f"{JOBS}:good", "--set", "trigger=10 parsecs"),
        "Error: the trigger '10 parsecs' is no duration\n"
        "Write it like 1 second, 10m or 500ms; available-now stops when all is read.\n",
    ),
    Mistake(
        "streams",
        ("run", f"{JOBS}:lost_app", "--set", "trigger=soon"),
        "Error: the trigger 'soon' is no duration\n"
        "Write it like 1 second, 10m or 500ms; available-now stops when all is read.\n",
    ),
    Mistake("streams", run("lost_app"), NO_TOPIC),
    Mistake("streams", run("far_app", "-b", NOBODY), NO_BROKER, code=3),
    Mistake("streams", run("lost_app", "--master", f"spark://{NOBODY}"), NO_MASTER),
    Mistake(
        "streams",
        run("open_app"),
        "Error: Filter filter-1: the quote ' in line 1, column 8 is not closed: name = 'a\n",
    ),
    Mistake(
        "streams",
        run("changed_app"),
        "Error: changed is not what its checkpoint is from: CHANGES\n"
        "Bring the old topology back; or give the new one another application name and run it beside the old one;"
        " or start over with `penstock streams reset`.\n",
    ),
    Mistake(
        "streams",
        run("left_app"),
        f"Error: the checkpoint is new, and the topic {MADE} has rows of an earlier run: they would count twice\n"
        "Bring the old checkpoint back, or start over with `penstock streams reset`.\n",
    ),
    Mistake("sql", ("SELECT * FROM mistaken_ordres",), NO_TABLE),
    Mistake("sql", ("SELECT 1; SELECT * FROM mistaken_ordres; SELECT 2",), NO_TABLE),
    Mistake("sql", ("DESCRIBE mistaken_ordres",), NO_TABLE),
    Mistake("sql", ("CREATE VIEW v AS SELECT * FROM mistaken_ordres",), NO_TABLE),
    Mistake("sql", ("SELECT 'a FROM t",), "Error: the quote ' in line 1, column 8 is not closed\n"),
    Mistake("sql", ("SELECT 1; SELECT count(* FROM t",), "Error: the ( in line 1, column 13 is not closed\n"),
    Mistake("sql", ("--output", "json", "SELECT `a FROM t"), "Error: the quote ` in line 1, column 8 is not closed\n"),
    Mistake(
        "sql",
        ("INSERT INTO mistaken-uot SELECT 1 AS a",),
        "Error: INSERT INTO fails: the topic mistaken-uot does not exist\n"
        "Did you mean mistaken-out? Create it, or say with how many partitions: --create-partitions 3.\n",
    ),
    Mistake(
        "sql",
        ("INSERT OVERWRITE t SELECT 1",),
        "Error: a topic is written to at its end: there is no INSERT OVERWRITE\nUse INSERT INTO.\n",
    ),
    Mistake(
        "sql",
        (f"DROP TABLE `{ORDERS}`",),
        f"Error: {ORDERS} is a topic, which DROP TABLE does not change\n`penstock topics delete {ORDERS}` does.\n",
    ),
    Mistake(
        "sql",
        (f"SELECT 1; DELETE FROM `{ORDERS}` WHERE id = 1",),
        f"Error: {ORDERS} is a topic, which DELETE FROM does not change\nINSERT INTO adds rows to it.\n",
    ),
    Mistake("sql", ("--views", "views", "DROP VIEW nobodys"), "Error: there is no view nobodys\nThere are none.\n"),
    Mistake(
        "sql",
        ("--views", "views", "CREATE VIEW a AS SELECT 1; CREATE VIEW A AS SELECT 2"),
        "Error: there is a view a already\nUse CREATE OR REPLACE VIEW, or DROP VIEW first.\n",
    ),
    Mistake(
        "sql",
        ("--views", "views", "CREATE VIEW a AS SELECT 1 AS n; CREATE VIEW b AS FROM a; DROP VIEW a"),
        "Error: the view a is used by b\nDrop or replace those first.\n",
    ),
    Mistake("sql", ("-b", NOBODY, "SELECT 1"), NO_BROKER, code=3),
    Mistake("sql", ("--set", f"spark.master=spark://{NOBODY}", "SELECT 1"), NO_MASTER),
    Mistake(
        "sql",
        ("--follow", "SHOW TABLES"),
        "Error: only a question or an INSERT INTO can be followed\nLeave --follow out.\n",
    ),
    Mistake(
        "sql",
        ("--checkpoint", "file", "SELECT 1"),
        "Error: the checkpoint file cannot be used: DIR/file is a file, not a directory\n",
    ),
]

WITH_SPARK = [
    Mistake(
        "pipeline",
        run("column"),
        "Error: the step misspelt does not fit its rows: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or"
        " function parameter with name `valeu` cannot be resolved. Did you mean one of the following? [`value`, `key`,"
        " `offset`, `topic`, `partition`].\n"
        "The rows it is given have: key, value, topic, partition, offset, timestamp, timestampType.\n"
        "What Spark said is in LOG\n",
        STARTING,
    ),
    Mistake(
        "streams",
        run("column_app"),
        f"Error: column/from-{ORDERS}: batch 0 failed at the sink to-{OUT} (topic {OUT}, exactly once): Spark refuses"
        " Filter filter-1: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name"
        " `nmae` cannot be resolved. Did you mean one of the following? [`id`, `name`, `_key`, `_null`, `_offset`]. It"
        f" read topic {ORDERS}, partition 0, offsets 0 to 0.\n{COMES_AGAIN}",
        f"{STARTING}pipeline column is open after N s\ncolumn/from-{ORDERS}: planning its first batch\n",
    ),
    Mistake(
        "sql",
        ("--output", "json", f"SELECT CAST(name AS INT) FROM `{ORDERS}`"),
        f"the columns of {ORDERS} are inferred from 1 record\n"
        """Error: The value 'a' of the type "STRING" cannot be cast to "INT" because it is malformed. Correct the"""
        " value as per the syntax, or change its target type. Use `try_cast` to tolerate malformed input and return"
        " NULL instead.\nWhat Spark said is in LOG\n",
    ),
    Mistake(
        "sql",
        (f"SELECT nmae FROM `{ORDERS}`",),
        f"Error: there is no column nmae (line 1, column 8)\n"
        f"there is name of {ORDERS}; {ORDERS} is inferred from 1 record\n",
    ),
    Mistake(
        "sql",
        ("--output", "json", f"SELECT nmae FROM `{ORDERS}`"),
        f"Error: there is no column nmae (line 1, column 8)\n"
        f"there is name of {ORDERS}; {ORDERS} is inferred from 1 record\n",
    ),
    Mistake(
        "sql",
        (f"SELECT no_such(id) FROM `{ORDERS}`",),
        "Error: Cannot resolve routine `no_such` on search path [`system`.`builtin`, `system`.`session`,"
        " `spark_catalog`.`default`]. (line 1, column 8)\nWhat Spark said is in LOG\n",
    ),
]


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1) for name in (ORDERS, OUT, MADE)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in (ORDERS, MADE):
        producer.produce(name, json.dumps({"id": 1, "name": "a"}))
    producer.flush(30)
    return bootstrap


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a file in it, and with the checkpoint of an application that was something else."""
    monkeypatch.chdir(tmp_path)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PENSTOCK_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").touch()
    checkpoint = tmp_path / "checkpoints" / "changed"
    checkpoint.mkdir(parents=True)
    document = {"version": 1, "queries": {"counts": {"reads": {}, "stateful": True, "nodes": {}}}}
    (checkpoint / "topology.json").write_text(json.dumps(document))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkLog:
    made = SparkLog()
    made.open({"PENSTOCK_SPARK_LOG": str(tmp_path / "spark.log")})
    monkeypatch.setattr(spark_log, "SPARK_LOG", made)
    return made


def told(mistake: Mistake, bootstrap: str, directory: Path, captured: Any, monkeypatch: pytest.MonkeyPatch) -> Mistake:
    """The mistake with what was said of it."""
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
    code = main([mistake.command, *mistake.arguments])
    shown, said = (plain(text, bootstrap, directory) for text in captured.readouterr())
    return mistake._replace(told=said, shown=shown, code=code)


def plain(text: str, bootstrap: str, directory: Path) -> str:
    text = text.replace(f"{directory}/spark.log", "LOG").replace(str(directory), "DIR").replace(bootstrap, "BROKER")
    text = re.sub(r"is from: .*", "is from: CHANGES", text)
    return re.sub(r"after \d+ s\b", "after N s", text)


@pytest.mark.parametrize("mistake", BEFORE_SPARK, ids=lambda each: " ".join(each.arguments).replace(JOBS, ""))
def test_a_mistake_is_told_before_spark_starts_when_it_can_be_known(
    mistake: Mistake,
    topics: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forbid_spark(monkeypatch)
    monkeypatch.setattr(sql_app, "_open", start)
    assert told(mistake, topics, tmp_path, capfd, monkeypatch) == mistake


@pytest.fixture
def in_session(spark: SparkSession, log: SparkLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loggers = [logging.getLogger("py4j"), *map(PySparkLogger.getLogger, PYSPARK_LOGGERS)]
    before = [(list(logger.handlers), logger.propagate) for logger in loggers]
    monkeypatch.setattr(session, "open_session", lambda *_: spark)
    monkeypatch.setattr(session, "stop_session", lambda _: None)

    def converse(wishes: Wishes, known: Known) -> SqlSession:
        return SqlSession(spark, Tables(spark, known.catalog), known.views, wishes.inserting)

    monkeypatch.setattr(sql_app, "_open", converse)
    take_over_logs()
    yield
    for logger, (handlers, propagates) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagates


@pytest.mark.parametrize("mistake", WITH_SPARK, ids=lambda each: " ".join(each.arguments).replace(JOBS, ""))
@pytest.mark.usefixtures("in_session")
def test_a_mistake_is_one_sentence_when_spark_finds_it(
    mistake: Mistake,
    topics: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told(mistake, topics, tmp_path, capfd, monkeypatch) == mistake
    if "LOG" in mistake.told:
        assert "\tat org.apache.spark" in (tmp_path / "spark.log").read_text()


def test_spark_and_its_workers_write_to_the_log_alone_when_a_run_has_a_jvm_of_its_own(
    topics: str, tmp_path: Path
) -> None:
    mistake = Mistake(
        "pipeline",
        run("loud"),
        f"Error: loud/main: {FAILED_BATCH.replace('STEP', 'loud_cast')}{COMES_AGAIN}",
        f"{STARTING}pipeline loud is open after N s\nloud/main: planning its first batch\n",
    )
    command = [sys.executable, "-m", "penstock", mistake.command, *mistake.arguments, "--master", "local[1]"]
    known = {"PENSTOCK_BOOTSTRAP": topics, "PENSTOCK_SPARK_LOG": str(tmp_path / "spark.log")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=os.environ | known)
    shown, said = (plain(text, topics, tmp_path) for text in (done.stdout, done.stderr))
    assert mistake._replace(told=said, shown=shown, code=done.returncode) == mistake
    log = (tmp_path / "spark.log").read_text()
    assert "a line of a worker\n" in log
    assert "\tat org.apache.spark" in log
