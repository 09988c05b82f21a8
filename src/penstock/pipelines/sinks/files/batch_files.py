"""Brings the files of a batch into a directory exactly once, whenever the process is killed.

    1  a mark says that the batch, or a later one, is done:        nothing is left to do
    2  the batch has a plan:                                       go on at 5
    3  the rows are written into a staging directory of this attempt alone, so that tasks left over from a killed
       attempt cannot add to it
    4  the plan (which staged file becomes which file) is written: from here on the batch will come, whatever happens
    5  the files are moved; one that was moved before is passed over
    6  what has to know of the files is told (a metastore of its partitions)
    7  the plan becomes the mark, and the staging directory goes

All of it lives in `_penstock`, which readers of the directory pass over. A query writes the batches of a sink in order,
one at a time.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.operations import Files
from penstock.pipelines.sinks.files.partition_names import is_hidden

HOME = "_penstock"
STAGING = f"{HOME}/staging"
BATCHES = f"{HOME}/batches"
# The newest would do; the others are for an operator who looks at the directory.
KEPT_MARKS = 5

# Writes the rows below the directory it is given, and returns the files relative to it.
Stage: TypeAlias = Callable[[str], Sequence[str]]
# Called with the directories that got files, relative to the root.
Publish: TypeAlias = Callable[[Sequence[str]], None]

_MARK = re.compile(r"(\d+)\.(plan|done)")


@dataclass(frozen=True, slots=True)
class BatchOfSink:
    sink: str
    query_id: str
    batch_id: int

    @property
    def marks(self) -> str:
        return f"{BATCHES}/{quote(self.sink, safe='')}/{quote(self.query_id, safe='')}"

    @property
    def staging(self) -> str:
        return f"{STAGING}/{quote(self.sink, safe='')}/{quote(self.query_id, safe='')}"

    @property
    def file_prefix(self) -> str:
        """Different for two sinks that write into one directory, and for a query that began anew."""
        writer = hashlib.sha256(f"{self.query_id}\n{self.sink}".encode()).hexdigest()[:12]
        return f"batch-{writer}-{self.batch_id:08}"


@dataclass(frozen=True, slots=True)
class Plan:
    staging: str
    moves: tuple[tuple[str, str], ...]
    deletes: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps({"staging": self.staging, "moves": self.moves, "deletes": self.deletes}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        read = json.loads(text)
        return cls(read["staging"], tuple((old, new) for old, new in read["moves"]), tuple(read["deletes"]))

    @property
    def directories(self) -> Sequence[str]:
        return sorted({posixpath.dirname(target) for _, target in self.moves})


@dataclass(frozen=True, slots=True)
class Marks:
    done: frozenset[int]
    planned: frozenset[int]

    @classmethod
    def of(cls, names: Iterable[str]) -> Marks:
        matches = [match for match in map(_MARK.fullmatch, names) if match]
        numbers = {kind: frozenset(int(match[1]) for match in matches if match[2] == kind) for kind in ("plan", "done")}
        return cls(numbers["done"], numbers["plan"])

    def is_done(self, batch_id: int) -> bool:
        """Batches are written in order, so a later one that is done speaks for all before it."""
        return any(done >= batch_id for done in self.done)

    def to_finish(self, batch_id: int) -> Sequence[int]:
        return sorted(planned for planned in self.planned if planned <= batch_id and not self.is_done(planned))

    def to_forget(self) -> Sequence[str]:
        """Plans that outlived their mark, which a killed copy leaves on an object store, and old marks."""
        plans = [f"{planned}.plan" for planned in sorted(self.planned & self.done)]
        return [*plans, *(f"{done}.done" for done in sorted(self.done)[:-KEPT_MARKS])]


def plan_moves(staging: str, staged: Sequence[str], prefix: str) -> Plan:
    """`date=2024-05-01/part-00000-...-c000.snappy.parquet` becomes `date=2024-05-01/<prefix>-00000.snappy.parquet`."""
    moves = []
    for number, path in enumerate(sorted(path for path in staged if not is_hidden(path))):
        directory, name = posixpath.split(path)
        extension = name[name.index(".") :] if "." in name else ""
        moves.append((f"{staging}/{path}", posixpath.join(directory, f"{prefix}-{number:05}{extension}")))
    return Plan(staging, tuple(moves))


def write_batch(files: Files, batch: BatchOfSink, stage: Stage, publish: Publish = lambda _: None) -> bool:
    """False when there was nothing left to do."""
    marks = Marks.of(files.names(batch.marks))
    if marks.is_done(batch.batch_id):
        return False
    unfinished = marks.to_finish(batch.batch_id)
    for batch_id in unfinished:
        _finish(files, batch.marks, batch_id, publish)
    if batch.batch_id not in unfinished:
        files.delete(batch.staging)  # what killed attempts left
        staging = f"{batch.staging}/{uuid.uuid4().hex}"
        plan = plan_moves(staging, stage(staging), batch.file_prefix)
        files.write(f"{batch.marks}/{batch.batch_id}.plan", plan.to_json())
        _finish(files, batch.marks, batch.batch_id, publish)
    for name in Marks.of(files.names(batch.marks)).to_forget():
        files.delete(f"{batch.marks}/{name}")
    return True


def _finish(files: Files, marks: str, batch_id: int, publish: Publish) -> None:
    # Read back rather than remembered: should two drivers ever be here at once, both follow the plan that stayed.
    plan = Plan.from_json(files.read(f"{marks}/{batch_id}.plan"))
    carry_out(files, plan)
    if plan.moves:
        publish(plan.directories)
    files.move(f"{marks}/{batch_id}.plan", f"{marks}/{batch_id}.done")
    files.delete(plan.staging)


def carry_out(files: Files, plan: Plan) -> None:
    for source, target in plan.moves:
        if files.exists(source):
            files.move(source, target)
        elif not files.exists(target):
            raise PipelineError(
                f"{source} is gone, and so is {target}, which it was to become",
                f"Something else removed files from {HOME}: the rows in it have to be brought back from elsewhere.",
            )
    for path in plan.deletes:
        files.delete(path)
