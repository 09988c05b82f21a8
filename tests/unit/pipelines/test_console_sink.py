from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.console import Console, FirstRows, drawn


def test_a_table_is_drawn_when_rows_are_shown() -> None:
    assert list(drawn(["name", "n"], [("a\nb\x1b[2J", 1), (None, 22), ("long enough", 3)], 8)) == [
        "+----------+----+",
        "| name     | n  |",
        "+----------+----+",
        "| a·b·[2J  | 1  |",
        "| null     | 22 |",
        "| long en… | 3  |",
        "+----------+----+",
    ]


def test_all_rows_are_read_when_only_the_first_are_shown() -> None:
    batches = [pa.RecordBatch.from_pydict({"n": [1, 2]}) for _ in range(3)]
    unread = iter(batches)
    assert sum(batch.num_rows for batch in FirstRows(3)(unread)) == 3
    assert next(unread, None) is None


def test_a_console_is_refused_when_it_would_show_nothing() -> None:
    with pytest.raises(PipelineError, match="at least 1"):
        Console(rows=0)
