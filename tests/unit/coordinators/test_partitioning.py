from __future__ import annotations

import tracemalloc

import pytest

from penstock.coordinators.partitioning import java_string_hash, partition_for


# The expected values come from Java's String.hashCode and Kafka's Utils.abs.
@pytest.mark.parametrize(
    ("key", "expected_hash", "expected_partition"),
    [
        ("group", 98629247, 47),
        ("", 0, 0),
        ("my-consumer", -901342473, 23),
        ("Größe", 69209585, 35),
        ("\U0001f600", 1772899, 49),  # two UTF-16 units
        ("x" * 3_000, 1932420096, 46),  # by the definition, unit for unit
        ("polygenelubricants", -(2**31), 0),  # has no positive counterpart
    ],
)
def test_partition_is_that_of_kafka_when_a_key_is_placed(key: str, expected_hash: int, expected_partition: int) -> None:
    assert java_string_hash(key) == expected_hash
    assert partition_for(key, 50) == expected_partition


@pytest.mark.parametrize("length", [63, 64, 65, 511, 512, 513, 1_024, 32_767])
@pytest.mark.parametrize("characters", ["group-", "\uffff", "Größe\U0001f600"])
def test_hash_is_that_of_the_definition_when_a_key_has_any_length(characters: str, length: int) -> None:
    text = (characters * length)[:length]
    encoded = text.encode("utf-16-be")
    expected = 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        expected = (expected * 31 + 256 * high + low) % 2**32
    assert java_string_hash(text) % 2**32 == expected


def test_no_memory_is_held_when_clients_name_many_long_ids() -> None:
    tracemalloc.start()
    try:
        for number in range(200):
            partition_for(f"{number:04}" * 8_000, 50)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
