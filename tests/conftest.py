"""What holds for every test."""

from __future__ import annotations

import gc

from hypothesis import settings

# A busy machine is not a failing test: examples have no deadline (the test has, see `timeout`).
settings.register_profile("penstock", deadline=None, print_blob=True)
settings.load_profile("penstock")


def pytest_collection_finish() -> None:
    """The collector of cycles never looks again at thousands of tests: many of them collect, and each took 0.2 s."""
    gc.collect()
    gc.freeze()
