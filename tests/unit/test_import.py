"""What the first use of a broker costs the program around it."""

from __future__ import annotations

import subprocess
import sys

# Each takes milliseconds to import, and a broker in a test needs none of them.
UNWANTED = ("ctypes", "sqlite3", "difflib", "unittest", "importlib.metadata", "multiprocessing")


def test_modules_that_few_brokers_need_are_left_alone_when_a_broker_is_made() -> None:
    code = f"import sys, penstock; penstock.Broker(); print([name for name in {UNWANTED} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_modules_for_several_brokers_are_left_alone_when_a_broker_is_alone() -> None:
    unwanted = ("kazoo", "penstock.broker.cluster_links", "penstock.broker.replicas", "penstock.broker.peers.peers")
    code = (
        "import sys, penstock\n"
        "with penstock.Broker(): pass\n"
        f"print([name for name in {unwanted} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_modules_for_settings_that_are_not_made_are_left_alone_when_a_broker_runs() -> None:
    """An idle broker held 3 MB for logins, metrics over HTTP and the requests of tokens, which nobody had asked for."""
    unwanted = (
        "email",
        "http",
        "urllib.request",
        "penstock.broker.login.logins",
        "penstock.server.monitoring.exposition",
    )
    code = (
        "import sys, penstock, penstock.server.main\n"
        "with penstock.Broker(): pass\n"
        f"print([name for name in {unwanted} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
