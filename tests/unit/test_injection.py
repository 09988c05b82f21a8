"""Time and chance come from outside (ADR 9): below the composition root nothing asks the system for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "penstock"
PACKAGES = (
    "core",
    "protocol",
    "log",
    "cluster",
    "coordinators",
    "groups",
    "transactions",
    "replication",
    "broker",
    "server",
)
TIME = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "thread_time"}
CHANCE = {
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom"},
    "random": {"SystemRandom", "random", "randrange", "choice", "getrandbits"},
    "secrets": {"token_bytes", "token_hex", "randbelow"},
}
SYSTEM = {"time": TIME, **CHANCE}

# Where the system is asked, and why there.
EDGES = {
    "core/clock.py": "the clock itself",
    "core/guardian.py": "waits for real processes; the simulation has none",
    "core/sockets/socket_deadline.py": "how long a thread waits for a socket; the simulation has no socket",
    "core/types.py": "the defaults of new_topic_id and new_uuid, for tools and tests; the broker hands in its own",
    "cluster/store/sqlite.py": "the name of a session; a file outlives the process, and the simulation has no file",
    "cluster/metadata.py": "the default of Metadata.open, for tests; the broker hands in its own",
    "broker/upkeep/compaction_pacing.py": "the stopwatch itself",
    "broker/partitions/flusher.py": "how long an fsync took, in a metric alone",
    "log/formats/names.py": "suffixes of directories to be deleted, and of marks; nothing else depends on them",
    "log/compaction/worker/process.py": "waits for a real process; the simulation has none",
    "log/compaction/worker/worker_process.py": "is that process",
    "server/broker_server.py": "the composition root",
    "server/monitoring/security.py": "the secret under which HTTP logins are remembered; the simulation has no HTTP",
    "server/monitoring/watchdog.py": "looks at the loop from another thread, in real time",
}


def uses(source: str) -> Iterator[str]:
    """What of the system's time and chance a module uses, as `module.name`."""
    names: dict[str, str] = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in SYSTEM:
            for alias in node.names:
                if alias.name in SYSTEM[node.module]:
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            names.update({alias.asname or alias.name: alias.name for alias in node.names if alias.name in SYSTEM})
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            if module is not None and node.attr in SYSTEM[module]:
                yield f"{module}.{node.attr}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time\nx = time.perf_counter()", ["time.perf_counter"]),
        ("import time as t\nx = t.monotonic", ["time.monotonic"]),
        ("from uuid import uuid4", ["uuid.uuid4"]),
        ("import os\nx = os.urandom(16)", ["os.urandom"]),
        ("import random\nx = random.SystemRandom()", ["random.SystemRandom"]),
        ("import random\ndef f(chance: random.Random): chance.random()", []),
        ("import time\nx = time.strftime('%Y')", []),
    ],
)
def test_use_is_found_when_a_module_asks_the_system(source: str, expected: list[str]) -> None:
    assert list(uses(source)) == expected


def test_system_is_asked_at_the_edges_alone_when_all_modules_are_read() -> None:
    found = {}
    for package in PACKAGES:
        for path in sorted((SOURCES / package).rglob("*.py")):
            used = sorted(set(uses(path.read_text(encoding="utf-8"))))
            if used:
                found[path.relative_to(SOURCES).as_posix()] = used
    assert {path: used for path, used in found.items() if path not in EDGES} == {}
    assert sorted(EDGES.keys() - found.keys()) == [], "edges that ask for nothing any more"
