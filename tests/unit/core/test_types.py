"""Ids made from chance."""

from __future__ import annotations

import random
import uuid

from penstock.core.types import new_uuid


def test_text_is_that_of_a_random_uuid_when_bytes_are_given() -> None:
    for seed in range(20):
        expected = uuid.UUID(bytes=random.Random(seed).randbytes(16), version=4)
        assert new_uuid(random.Random(seed).randbytes) == str(expected)
