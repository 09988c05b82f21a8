"""An insert that is under way, written down."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.jobs import (
    DECIDING,
    RETENTION_MS,
    InsertJob,
    check_continuable,
    identity,
    job_file,
    locked,
    new_job_id,
    read_job,
    remove_job,
    settings_to_keep,
    write_job,
)

JOB = InsertJob(
    id=new_job_id(),
    begun_ms=1_000,
    topic="t",
    query="SELECT 1",
    columns=("a",),
    reads=({"columns": ["a"]},),
    is_one_task=False,
    encoding={"is_raw": False},
    settings={"spark.sql.shuffle.partitions": "2"},
    spark_version="4.3.0",
)


def test_a_job_is_read_as_it_was_written_when_the_statement_is_the_same(tmp_path: Path) -> None:
    file = job_file(tmp_path / "jobs", "0123")
    with locked(file):
        assert read_job(file) is None
        write_job(file, JOB)
        assert read_job(file) == JOB
        remove_job(file)
        assert read_job(file) is None


def test_jobs_are_for_their_owner_alone(tmp_path: Path) -> None:
    file = job_file(tmp_path / "jobs", "0123")
    with locked(file):
        write_job(file, JOB)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (file.parent, file, file.with_suffix(".lock"))}
    assert modes == {"jobs": 0o700, "0123.insert.json": 0o600, "0123.insert.lock": 0o600}


def test_an_insert_is_another_when_anything_of_it_is_another() -> None:
    given = ("cluster", "t", ("a",), "WITH v AS (SELECT 1) SELECT * FROM v")
    others = [
        ("other", *given[1:]),
        (given[0], "u", *given[2:]),
        (*given[:2], (), given[3]),
        (*given[:3], "WITH v AS (SELECT 2) SELECT * FROM v"),
    ]
    assert identity(*given) == identity(*given)
    assert len({identity(*each) for each in [given, *others]}) == 5


def test_a_second_run_is_refused_when_the_first_is_under_way_in_this_process(tmp_path: Path) -> None:
    file = job_file(tmp_path, "0123")
    with locked(file), pytest.raises(SqlError, match="an earlier run of this statement is about to end"), locked(file):
        pass
    with locked(file):
        pass


def test_a_second_run_is_refused_when_another_process_runs_the_first(tmp_path: Path) -> None:
    file = job_file(tmp_path, "0123")
    script = (
        "import sys, pathlib\nfrom penstock.pipelines.sql.jobs import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n    print('locked', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(SqlError, match=rf"another process \(process {other.pid}\)"), locked(file):
            pass
        other.communicate("")
    with locked(file):
        pass


def test_no_process_is_named_when_the_holder_wrote_nothing(tmp_path: Path) -> None:
    file = job_file(tmp_path, "0123")
    with open(file.with_suffix(".lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SqlError, match=r"another process$"), locked(file):
            pass


def test_an_insert_is_not_continued_when_its_markers_may_be_gone(tmp_path: Path) -> None:
    file = tmp_path / "x.insert.json"
    longest_ms = RETENTION_MS * 6 // 7
    check_continuable(JOB, file, JOB.begun_ms + longest_ms, "4.3.0")
    with pytest.raises(SqlError, match="was begun 144 hours ago") as raised:
        check_continuable(JOB, file, JOB.begun_ms + longest_ms + 1, "4.3.0")
    with pytest.raises(SqlError, match="was begun 2 hours ago"):
        check_continuable(JOB, file, JOB.begun_ms + 7_200_000, "4.3.0", retention_ms=7_200_000)
    assert f"Delete {file} to insert all rows anew" in raised.value.hint


def test_an_insert_is_not_continued_when_another_spark_may_deal_out_its_rows(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match=r"begun with Spark 4\.3\.0, and 5\.0\.0 may deal"):
        check_continuable(JOB, tmp_path, JOB.begun_ms, "5.0.0")
    check_continuable(replace(JOB, is_one_task=True), tmp_path, JOB.begun_ms, "5.0.0")


def test_settings_that_nobody_has_set_are_kept_when_they_follow_from_the_machine() -> None:
    kept = settings_to_keep({"spark.sql.shuffle.partitions": "5", "spark.app.name": "x"}, 2)
    assert kept == {
        "spark.sql.leafNodeDefaultParallelism": "2",
        "spark.sql.optimizer.excludedRules": "",
        "spark.sql.shuffle.partitions": "5",
    }
    assert settings_to_keep(dict.fromkeys(DECIDING, "7"), 2) == dict.fromkeys(DECIDING, "7")


def test_the_file_is_named_when_it_is_no_job(tmp_path: Path) -> None:
    file = tmp_path / "x.insert.json"
    file.write_text('{"version": 99}')
    with pytest.raises(SqlError, match=r"x\.insert\.json cannot be read: it was written by another version"):
        read_job(file)
