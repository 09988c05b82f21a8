from __future__ import annotations

import pytest

from penstock.cli.access.offsets import Place, parse_partition_offsets, parse_place
from penstock.cli.errors import UsageError

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", "earliest"),
        ("-2", "earliest"),
        ("latest", "latest"),
        ("-1", "latest"),
        ("max-timestamp", "max-timestamp"),
        ("-3", "max-timestamp"),
        ("1600000000000", 1_600_000_000_000),
        ("-1m", NOW_MS - 60_000),
    ],
)
def test_place_is_an_edge_or_a_time_when_parsed(text: str, expected: Place) -> None:
    assert parse_place(text, NOW_MS) == expected


def test_offsets_of_partitions_are_read_when_repeated_or_joined() -> None:
    assert parse_partition_offsets(["0:100,1:end", "2:-1", "3:0"]) == {0: 100, 1: -1, 2: -1, 3: 0}


@pytest.mark.parametrize("text", ["", "0", "0:", ":1", "a:1", "0:-2", "0:1:2", "0:1,"])
def test_usage_error_when_partition_offset_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_partition_offsets([text])
