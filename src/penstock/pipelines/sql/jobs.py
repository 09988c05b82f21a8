"""An insert that is under way, written down: what running it again needs in order to go on with it.

A job is a file in the checkpoint directory, named after the statement and the cluster. It is there from before the
first row until after the last. It holds no secrets: how to reach the cluster and the registry is given with each run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.pipelines.errors import SqlError

# Changes when older files would be read wrongly.
_VERSION = 1


@dataclass(frozen=True, slots=True)
class InsertJob:
    id: str
    statement: str
    topic: str
    # Of each topic that is read: the table, columns, and offsets of each task, as `snapshots` writes them.
    reads: tuple[dict[str, Any], ...]
    shuffle_partitions: str
    is_one_task: bool
    # The schema of keys and values, as `records` writes them.
    encoding: dict[str, Any]

    def to_json(self) -> str:
        document = {"version": _VERSION, **{name: getattr(self, name) for name in self.__slots__}}
        return json.dumps(document, indent=1)

    @classmethod
    def of_json(cls, text: str) -> InsertJob:
        """ValueError, KeyError or TypeError for what is no job."""
        document = json.loads(text)
        if document.pop("version") != _VERSION:
            raise ValueError("it was written by another version of penstock")
        return cls(**{**document, "reads": tuple(document["reads"])})


def new_job_id() -> str:
    """Producers' transactional ids begin with it."""
    return f"sql-{uuid.uuid4().hex}"


def job_file(directory: Path, statement: str, cluster: str) -> Path:
    """`cluster` is the id that the cluster has of itself. The statement counts as it is written."""
    digest = hashlib.sha256(f"{cluster}\n{statement}".encode()).hexdigest()[:16]
    return directory / f"{digest}.insert.json"


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Two runs of one statement at a time would take each other's producers. The lock ends with the process, however
    that ends."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise SqlError(f"the checkpoint directory {file.parent} cannot be used: {error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise SqlError(
            "the same statement is being run by another process", "Wait for its end; then this is a new insert."
        ) from None
    try:
        yield
    finally:
        os.close(handle)


def read_job(file: Path) -> InsertJob | None:
    """The job of a run that did not come to its end; None where there is none."""
    try:
        return InsertJob.of_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SqlError(
            f"the unfinished insert in {file} cannot be read: {error}",
            "Delete the file to insert all rows anew; those that the earlier run wrote stay in the topic.",
        ) from error


def write_job(file: Path, job: InsertJob) -> None:
    """As a whole, and on the disk before the first row is sent."""
    new = file.with_suffix(".new")
    try:
        with open(os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
            opened.write(job.to_json())
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(new, file)
        directory = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise SqlError(f"the file {file} cannot be written: {error}") from error


def remove_job(file: Path) -> None:
    """The lock's file stays: another process may be about to lock it."""
    file.unlink(missing_ok=True)
