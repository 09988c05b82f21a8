"""What a test does without a server or program that it starts: see tools/ensure_servers."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def give_up_without(what: str, area: str) -> NoReturn:
    """Skips the test; fails it where .ci/run had the right to install everything."""
    message = f"{what} is not installed (tools/ensure_servers {area})"
    if os.environ.get("PENSTOCK_REQUIRE_SERVERS"):
        pytest.fail(message)
    pytest.skip(message)
