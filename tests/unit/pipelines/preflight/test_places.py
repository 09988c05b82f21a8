from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.preflight.places import check_directory


def test_a_directory_is_taken_when_it_is_there_or_can_be_made_or_is_elsewhere(tmp_path: Path) -> None:
    check_directory(str(tmp_path), "the checkpoint")
    check_directory(f"file://{tmp_path}/new/deep", "the checkpoint")
    check_directory("s3a://bucket/jobs", "the checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_refused_when_a_file_is_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError) as refused:
        check_directory(f"{tmp_path}/file/below", "the checkpoint")
    assert refused.value.message == (
        f"the checkpoint {tmp_path}/file/below cannot be used: {tmp_path}/file is a file, not a directory"
    )


def test_a_directory_is_refused_when_it_may_not_be_written() -> None:
    if os.access("/proc/1", os.W_OK):
        pytest.skip("whoever may write everywhere is refused nowhere")
    with pytest.raises(PipelineError, match="/proc/1 is not yours to write to"):
        check_directory("/proc/1/below", "the checkpoint")
