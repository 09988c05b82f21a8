"""One registry in memory for all tests of a module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.integration.registry.serving import Served, serving

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def registry() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture
def subject() -> str:
    """A name of the test's own."""
    return f"subject-{next(_NUMBERS)}"
