"""What holds for every test."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests import keeping

# A busy machine is not a failing test: examples have no deadline (the test has, see `timeout`).
settings.register_profile("penstock", deadline=None, print_blob=True)
settings.load_profile("penstock")

# Tests start hundreds of Pythons. Where no compiled code may lie beside the sources, it lies in .cache. Without it each
# Python compiles everything anew: a broker takes 0.8 s of CPU time to start instead of 0.2 s, and on a busy machine
# Spark no longer waits for its Python workers.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def pytest_configure(config: pytest.Config) -> None:
    keeping.register(config)


def pytest_collection_finish() -> None:
    """The collector of cycles never looks again at thousands of tests: many of them collect, and each took 0.2 s."""
    gc.collect()
    gc.freeze()
