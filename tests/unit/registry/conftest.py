from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.registry.registering import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.close()
