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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.pipelines.errors import SqlError

# Changes when older files would be read wrongly.
_VERSION = 2
# Brokers forget the markers of rows that are there after offsets.retention.minutes, which is this unless it is set.
RETENTION_MS = 7 * 24 * 3600 * 1000
# The rest of that time is for clocks that differ, and for the insert itself.
_USABLE_SEVENTHS = 6
_HOUR_MS = 3600 * 1000


@dataclass(frozen=True, slots=True)
class InsertJob:
    id: str
    begun_ms: int
    topic: str
    query: str  # with its views in it
    columns: tuple[str, ...]
    # Of each topic that is read: the table, columns, and offsets of each task, as `snapshots` writes them.
    reads: tuple[dict[str, Any], ...]
    is_one_task: bool
    # The schema of keys and values, as `records` writes them.
    encoding: dict[str, Any]
    # The settings of Spark that decide which rows are in which task, and what they are.
    settings: dict[str, str] = field(default_factory=dict)
    spark_version: str = ""

    def to_json(self) -> str:
        document = {"version": _VERSION, **{name: getattr(self, name) for name in self.__slots__}}
        return json.dumps(document, indent=1)

    @classmethod
    def of_json(cls, text: str) -> InsertJob:
        """ValueError, KeyError or TypeError for what is no job."""
        document = json.loads(text)
        if document.pop("version") != _VERSION:
            raise ValueError("it was written by another version of penstock")
        lists = {name: tuple(document[name]) for name in ("reads", "columns")}
        return cls(**{**document, **lists})


def new_job_id() -> str:
    """Producers' transactional ids begin with it."""
    return f"sql-{uuid.uuid4().hex}"


def identity(cluster: str, topic: str, columns: Sequence[str], query: str) -> str:
    """A digest of what an insert does. `cluster` is the id that the cluster has of itself; `query` has its views in it:
    with another view it is another insert."""
    whole = json.dumps([cluster, topic, list(columns), query])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def job_file(directory: Path, identity: str) -> Path:
    return directory / f"{identity}.insert.json"


def check_continuable(
    job: InsertJob, file: Path, now_ms: int, spark_version: str, retention_ms: int = RETENTION_MS
) -> None:
    """`retention_ms` is how long brokers remember. SqlError where running the insert again might leave rows out or
    write some twice."""
    begin_anew = f"Look which rows {job.topic} has. Delete {file} to insert all rows anew; those that are there stay."
    age_ms = now_ms - job.begun_ms
    if age_ms > retention_ms * _USABLE_SEVENTHS // 7:
        raise SqlError(
            f"the insert was begun {age_ms // _HOUR_MS} hours ago and did not come to its end; by now brokers may"
            " have forgotten which of its rows are there",
            begin_anew,
        )
    if not job.is_one_task and job.spark_version != spark_version:
        raise SqlError(
            f"the insert was begun with Spark {job.spark_version}, and {spark_version} may deal its rows out otherwise",
            f"Finish it with Spark {job.spark_version}. Or else: {begin_anew}",
        )


def settings_to_keep(found: Mapping[str, str], parallelism: int) -> dict[str, str]:
    """The session's settings that are kept with a job. Spark cuts numbers and values into as many tasks as there are
    cores, unless the session sets a number."""
    return {_LEAVES: str(parallelism), _EXCLUDED: ""} | {name: found[name] for name in DECIDING if name in found}


_LEAVES = "spark.sql.leafNodeDefaultParallelism"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
# They decide how rows are dealt out to tasks, or what an expression gives. All can be changed in a session.
DECIDING = (
    _LEAVES,
    "spark.sql.shuffle.partitions",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.join.preferSortMergeJoin",
    "spark.sql.shuffledHashJoinFactor",
    "spark.sql.requireAllClusterKeysForCoPartition",
    "spark.sql.cbo.enabled",
    "spark.sql.cbo.joinReorder.enabled",
    _EXCLUDED,
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Two runs of one statement at a time would take each other's producers. The lock ends with the process, however
    that ends."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise SqlError(f"the checkpoint directory {file.parent} cannot be used: {error}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refusal(os.pread(handle, 32, 0)) from None
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _refusal(holder: bytes) -> SqlError:
    """`holder` is the process that has the lock, as it wrote itself down."""
    if holder == str(os.getpid()).encode():
        return SqlError(
            "an earlier run of this statement is about to end, and has not ended yet",
            "Run it again in a moment: it goes on where that run has come to.",
        )
    which = f" (process {holder.decode()})" if holder.isdigit() else ""
    return SqlError(
        f"the same statement is being run by another process{which}", "Wait for its end; then this is a new insert."
    )


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
        _sync_directory(file.parent)
    except OSError as error:
        raise SqlError(f"the file {file} cannot be written: {error}") from error


def remove_job(file: Path) -> None:
    """For good, before the markers of its rows are deleted: a job that is back without them would be written again.
    The lock's file stays: another process may be about to lock it."""
    try:
        file.unlink(missing_ok=True)
        _sync_directory(file.parent)
    except OSError as error:
        raise SqlError(
            f"all rows are written, and the file {file} cannot be removed: {error}",
            "Remove it before the statement is run again: that would be the same insert, which is done.",
        ) from error


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
