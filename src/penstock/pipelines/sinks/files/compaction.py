"""Many small files of a directory become few large ones, by a plan as a batch's: whenever the process is killed, each
row stays, and the next compaction (or the pipeline's next start) finishes what was begun.

Between the moment the large file is there and the moment the small ones are gone, a reader that lists the directory
sees rows twice: plain directories know no better. Batches may be written meanwhile; two compactions of a lake must not
run at once.
"""

from __future__ import annotations

import posixpath
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.batch_files import BATCHES, HOME, STAGING, Plan, carry_out, plan_moves
from penstock.pipelines.sinks.files.operations import Files, StoredFile
from penstock.pipelines.sinks.files.partition_names import is_hidden

PLANS = f"{HOME}/compaction"

# Writes the rows of the given files as so many files below a directory; returns those relative to it.
Rewrite: TypeAlias = Callable[[Sequence[str], str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class SmallFiles:
    directory: str
    paths: tuple[str, ...]
    size: int

    def files_wanted(self, target_bytes: int) -> int:
        return max(1, -(-self.size // target_bytes))


@dataclass(frozen=True, slots=True)
class Compacted:
    directories: int = 0
    files_before: int = 0
    files_after: int = 0


def find_small_files(stored: Sequence[StoredFile], held: frozenset[str], target_bytes: int) -> Sequence[SmallFiles]:
    """Directories that come out with fewer files. A file of at least half the target stays as it is, so that a
    compaction that is run again finds nothing to do; `held` files belong to batches that are not finished."""
    by_directory: dict[str, list[StoredFile]] = defaultdict(list)
    for file in stored:
        if not is_hidden(file.path) and file.path not in held and file.size < target_bytes / 2:
            by_directory[posixpath.dirname(file.path)].append(file)
    groups = [
        SmallFiles(directory, tuple(file.path for file in some), sum(file.size for file in some))
        for directory, some in sorted(by_directory.items())
    ]
    return [small for small in groups if len(small.paths) > small.files_wanted(target_bytes)]


def compact(files: Files, below: str, target_bytes: int, rewrite: Rewrite) -> Compacted:
    finish_compactions(files)
    stored = [
        StoredFile(posixpath.join(below, file.path) if below else file.path, file.size) for file in files.walk(below)
    ]
    done = Compacted()
    # After the listing: a file that was listed and has no plan now will never be moved again.
    for small in find_small_files(stored, _held(files), target_bytes):
        after = _compact_directory(files, small, target_bytes, rewrite)
        done = Compacted(done.directories + 1, done.files_before + len(small.paths), done.files_after + after)
    return done


def finish_compactions(files: Files) -> None:
    for name in files.names(PLANS):
        if name.endswith(".plan"):
            _finish(files, f"{PLANS}/{name}")


def _compact_directory(files: Files, small: SmallFiles, target_bytes: int, rewrite: Rewrite) -> int:
    identity = uuid.uuid4().hex
    staging = f"{STAGING}/compaction/{identity}"
    written = rewrite(small.paths, staging, small.files_wanted(target_bytes))
    moves = plan_moves(staging, written, posixpath.join(small.directory, f"compacted-{identity[:12]}")).moves
    gone = [path for path in small.paths if not files.exists(path)]
    if gone:
        files.delete(staging)
        raise PipelineError(
            f"{gone[0]} went away while it was being compacted", "Only one compaction of a lake may run at a time."
        )
    files.write(f"{PLANS}/{identity}.plan", Plan(staging, moves, small.paths).to_json())
    _finish(files, f"{PLANS}/{identity}.plan")
    return len(moves)


def _finish(files: Files, plan_path: str) -> None:
    plan = Plan.from_json(files.read(plan_path))
    carry_out(files, plan)
    files.delete(plan_path)
    files.delete(plan.staging)


def _held(files: Files) -> frozenset[str]:
    plans = [file.path for file in files.walk(BATCHES) if file.path.endswith(".plan")]
    return frozenset(target for path in plans for _, target in Plan.from_json(files.read(f"{BATCHES}/{path}")).moves)
