"""What holds for models and generated cases."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

IN_MEMORY = "/dev/shm"
# Logs of a test have a few megabytes at a time. Containers are often given 64 MB of shared memory.
ROOM_BYTES = 1 << 30


@pytest.fixture(scope="package", autouse=True)
def _files_in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hundreds of small logs are written and synced, and a disk that others use keeps each of them waiting. No test
    here cuts the power: a crash is a file that is cut off or damaged.
    """
    tmp_path_factory.getbasetemp()  # pytest keeps these folders for a while, so they stay on the disk
    former = tempfile.tempdir
    if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= ROOM_BYTES:
        tempfile.tempdir = IN_MEMORY
    yield
    tempfile.tempdir = former
