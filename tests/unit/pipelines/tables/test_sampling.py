"""What a few records say of a topic."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.tables.sampling import is_text, named_schemas, plan_sample, read_objects
from penstock.pipelines.tables.scan import SMALL_RECORDS, plan_tasks


def part(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("t", partition), start, end)


def test_a_sample_is_of_the_ends_of_the_largest_partitions() -> None:
    assert plan_sample([part(0, 0, 1000), part(1, 5, 5), part(2, 10, 20)], 200) == [part(0, 900, 1000), part(2, 10, 20)]
    many = plan_sample([part(number, 0, 100 + number) for number in range(50)], 200)
    assert [each.partition.partition for each in many] == [49, 48, 47, 46, 45, 44, 43, 42]
    assert sum(each.size for each in many) == 200
    assert plan_sample([part(0, 3, 3)], 200) == []


@pytest.mark.parametrize(
    ("payloads", "objects", "is_most"),
    [
        ([b'{"a": 1}', None, b" {} "], ([{"a": 1}, {}], []), True),
        ([b'{"a": 1}', None, b"[1]"], ([{"a": 1}], [2]), False),
        ([b"no", *[b"{}"] * 9], ([{}] * 9, [0]), True),
        ([b"no", *[b"{}"] * 8], ([{}] * 8, [0]), False),
        ([b"", b"null"], ([], [0, 1]), False),
        ([None], ([], []), False),
        ([], ([], []), False),
        ([b'{"a": "' + b"\xff" + b'"}'], ([], [0]), False),
        ([b'{"a":' + b"[" * 100_000], ([], [0]), False),
    ],
)
def test_values_are_objects_when_nine_of_ten_parse(
    payloads: list[bytes | None], objects: object, is_most: bool
) -> None:
    assert read_objects(payloads) == objects
    assert read_objects(payloads).is_most is is_most


@pytest.mark.parametrize(
    ("payloads", "answer"),
    [
        (["größe\n".encode(), b"", None], True),
        ([b"a", b"\xff"], False),
        ([(7).to_bytes(8)], False),
        ([], True),
    ],
)
def test_keys_are_text_when_somebody_can_read_all_of_them(payloads: list[bytes | None], answer: bool) -> None:
    assert is_text(payloads) is answer


def test_schemas_are_named_when_every_payload_names_one() -> None:
    framed = [b"\0\0\0\0\x07x", None, b"\0\0\0\0\x09"]
    none = pa.nulls(3, pa.binary())
    assert named_schemas(pa.array(framed, pa.binary()), none) == [7, 9]
    assert named_schemas(pa.array([*framed[:2], b"{}"], pa.binary()), none) == []
    assert named_schemas(pa.nulls(3, pa.binary()), none) == []


def test_a_small_read_is_one_task_and_a_large_one_two_for_each_core() -> None:
    few = [part(0, 0, 10), part(1, 3, 3), part(2, 0, SMALL_RECORDS)]
    assert plan_tasks(few, 8) == ((part(0, 0, 10), part(2, 0, SMALL_RECORDS)),)
    large = [part(0, 0, 50 * SMALL_RECORDS)]
    tasks = plan_tasks(large, 2)
    assert len(tasks) == 4
    assert tasks[0][0].start == 0
    assert sum(each.size for task in tasks for each in task) == large[0].size
    assert len(plan_tasks([part(number, 0, SMALL_RECORDS) for number in range(100)], 2)) == 4
    assert plan_tasks(large, 2, limit=10) == ((large[0],),)
    assert plan_tasks([], 2) == ()
