"""The cleaner's process against the same cleaning in this process: every file must be the same, byte for byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.log_cleaner import CleanerLimits, CleaningOutcome, CleaningRequest
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.compaction.worker.process import CleanerProcess, find_command
from penstock.log.formats import names
from tests.properties.test_compaction import CompactionModel

NO_LIMIT = 1.7976931348623157e308
_command = find_command()
assert _command is not None
PROCESS = CleanerProcess(_command)


@pytest.fixture(scope="module", autouse=True)
def _process() -> Iterator[None]:
    yield
    PROCESS.end()


class ProcessModel(CompactionModel):
    """Each cleaning of the model happens twice: in the process on a copy, and here."""

    def clean_within(self, limits: CleanerLimits) -> None:
        compaction = self.log.compaction
        request = compaction.begin_cleaning(compaction.measure_dirt(self.now_ms), self.now_ms, limits).request
        compaction.end_cleaning(None)
        with tempfile.TemporaryDirectory(prefix="penstock-twin-") as twin:
            shutil.copytree(self.directory, twin, dirs_exist_ok=True)
            theirs = clean_by_process(moved(request, twin))
            ours = clean_log(compaction, self.now_ms, limits).outcome
            assert theirs == ours
            assert segments(Path(twin)) == segments(self.directory)


def moved(request: CleaningRequest, directory: str) -> CleaningRequest:
    sources = [each._replace(path=f"{directory}/{Path(each.path).name}") for each in request.sources]
    return request._replace(directory=directory, sources=sources)


def clean_by_process(request: CleaningRequest) -> CleaningOutcome:
    """With the files put in place as the owner of a log does, but that no log is there."""
    PROCESS.begin(request, NO_LIMIT)
    while True:
        done = PROCESS.advance(NO_LIMIT, 1.0)
        if isinstance(done, CleaningOutcome):
            return done
        if isinstance(done, Replacement):
            done.commit(request.files)
            for base_offset in done.replaced:
                for suffix in names.SEGMENT_SUFFIXES:
                    request.files.unlink(f"{request.directory}/{names.segment_file(base_offset, suffix)}")
            done.install(request.files)
            PROCESS.proceed()


def segments(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Of the sealed ones: the content and, where it counts, the time."""
    logs = sorted(directory.glob("*.log"))[:-1]
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns // 1_000_000 if path.suffix == names.LOG else 0)
        for log in logs
        for path in directory.glob(f"{log.stem}.*")
        if path.suffix in names.SEGMENT_SUFFIXES
    }


ProcessModel.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestProcessModel = ProcessModel.TestCase
