"""An insert that is under way, written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.jobs import InsertJob, job_file, locked, new_job_id, read_job, remove_job, write_job


def test_a_job_is_read_as_it_was_written_when_the_statement_is_the_same(tmp_path: Path) -> None:
    file = job_file(tmp_path / "jobs", "INSERT INTO t SELECT 1", "cluster")
    job = InsertJob(new_job_id(), "INSERT INTO t SELECT 1", "t", ({"columns": ["a"]},), "2", True, {"is_raw": False})
    with locked(file):
        assert read_job(file) is None
        write_job(file, job)
        assert read_job(file) == job
        assert read_job(job_file(tmp_path / "jobs", "INSERT INTO t SELECT 1", "another")) is None
        remove_job(file)
        assert read_job(file) is None


def test_a_second_run_is_refused_when_the_first_is_under_way(tmp_path: Path) -> None:
    file = job_file(tmp_path, "INSERT INTO t SELECT 1", "cluster")
    with locked(file), pytest.raises(SqlError, match="is being run by another process"), locked(file):
        pass
    with locked(file):
        pass


def test_the_file_is_named_when_it_is_no_job(tmp_path: Path) -> None:
    file = tmp_path / "x.insert.json"
    file.write_text('{"version": 99}')
    with pytest.raises(SqlError, match=r"x\.insert\.json cannot be read: it was written by another version"):
        read_job(file)
