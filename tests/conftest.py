"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is not a failing test: examples have no deadline (the test has, see `timeout`).
settings.register_profile("penstock", deadline=None, print_blob=True)
settings.load_profile("penstock")
