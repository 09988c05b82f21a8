"""What a question that is only looked at keeps while it is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines import Branch, Pipeline, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sql.followed_query import RowsSink, scratch_removed_if_it_fails
from tests.unit.pipelines.pieces import Nowhere


@pytest.mark.parametrize("is_stateful", [False, True])
def test_scratch_is_gone_when_the_start_fails(tmp_path: Path, is_stateful: bool) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    sink = RowsSink(Nowhere("rows"), scratch=scratch)
    pipeline = Pipeline("p", (Topic("t"),), (Branch("rows", (sink,), stateful=True) if is_stateful else sink,))
    with scratch_removed_if_it_fails(pipeline):
        pass
    assert scratch.exists()
    with pytest.raises(PipelineError), scratch_removed_if_it_fails(pipeline):
        raise PipelineError("no broker answers")
    assert not scratch.exists()
