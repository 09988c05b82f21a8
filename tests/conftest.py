"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import engine

from tests import keeping

# A busy machine is not a failing test: examples have no deadline (the test has, see `timeout`). To explain a failure,
# hypothesis traces every line of further examples: with it, the search for a small counterexample comes less far.
settings.register_profile(
    "penstock", deadline=None, print_blob=True, phases=[phase for phase in Phase if phase is not Phase.explain]
)
settings.load_profile("penstock")

# Hypothesis looks for a smaller counterexample for five minutes. That is the limit of a test, which would end without a
# word of what failed. There is no setting for these minutes; hypothesis documents this constant as one to be changed.
# PENSTOCK_SHRINKING_SECONDS=3600 with `--timeout=0` looks for longer.
assert engine.MAX_SHRINKING_SECONDS
engine.MAX_SHRINKING_SECONDS = float(os.environ.get("PENSTOCK_SHRINKING_SECONDS", "60"))  # type: ignore[assignment]

# Tests start hundreds of Pythons. Where no compiled code may lie beside the sources, it lies in .cache. Without it each
# Python compiles everything anew: a broker takes 0.8 s of CPU time to start instead of 0.2 s, and on a busy machine
# Spark no longer waits for its Python workers.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A shell starts what is in the background (`make test &`) with SIGINT ignored, and every process below inherits that.
# Tests interrupt themselves and their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    keeping.register(config)


def pytest_collection_finish() -> None:
    """The collector of cycles never looks again at thousands of tests: many of them collect, and each took 0.2 s."""
    gc.collect()
    gc.freeze()
