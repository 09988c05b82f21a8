"""`make test` and `make interop`: in parts beside each other, since servers keep a test waiting for half of its time.

`run_tests.py test` and `run_tests.py interop` run every part; with arguments behind they are plain pytest:
`make test ARGS='tests/unit -k batch'`, `make interop AREA=tools`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

PIPELINES = "tests/pipelines"
STREAMS = f"{PIPELINES}/streams"
# Where tests start brokers and wait for them, so in three parts that wait beside each other. Clients share brokers;
# what is hurt, stopped or attacked is a broker of the test's own; those with clusters wait longest.
INTEGRATION = "tests/integration"
WITH_CLUSTERS = f"{INTEGRATION}/cluster"
WITH_CLIENTS = ("tests/clients", f"{INTEGRATION}/client", f"{INTEGRATION}/registry")
# Where hypothesis and the simulation compute: as long as all other tests of the code.
MODELS = ("tests/properties", "tests/scenarios")
# Where every test starts Spark anew. The others of the pipelines share a session, those of streams another one: a test
# that waits for Spark keeps one core of two busy.
OWN_SPARK = (
    f"{PIPELINES}/test_cluster.py",
    f"{PIPELINES}/test_pipeline_cli.py",
    f"{PIPELINES}/test_pipeline_rounds.py",
)
# Kafka's own software needs longer for a test, and lies outside of what pytest collects by itself.
INTEROP_OPTIONS = (
    "-o",
    "addopts=--strict-markers --strict-config --import-mode=importlib -m 'not soak' -ra",
    "-o",
    "timeout=300",
)
# The parts of a run, by name. The first one's output is seen as it comes, that of the others when they have ended.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "test": {
        "the broker's code": tuple(f"--ignore={path}" for path in (PIPELINES, *WITH_CLIENTS, INTEGRATION, *MODELS)),
        "the pipelines": (PIPELINES, *(f"--ignore={path}" for path in (STREAMS, *OWN_SPARK))),
        "brokers that are hurt": (INTEGRATION, *(f"--ignore={path}" for path in (WITH_CLUSTERS, *WITH_CLIENTS))),
        "streams": (STREAMS,),
        "clusters that run": (WITH_CLUSTERS,),
        "brokers and their clients": WITH_CLIENTS,
        "pipelines with a Spark of their own": OWN_SPARK,
        "models and generated cases": MODELS,
    },
    "interop": {
        "Kafka's tools, and its authorizer": ("tests/interop/tools", "tests/interop/security"),
        "Java clients, Kafka's files and three brokers": (
            "tests/interop/clients",
            "tests/interop/schemas",
            "tests/interop/storage",
            "tests/interop/cluster",
        ),
        "a second registry, and REST on Kafka": ("tests/interop/registry", "tests/interop/rest"),
        "Kafka Streams": ("tests/interop/streams",),
        "Spark and Hadoop": ("tests/interop/spark", "tests/interop/hadoop"),
    },
}
# Beside the first one. With all of them at once two cores had a load of 12, and what has a deadline missed it: Spark
# gives a Python worker ten seconds to start. The longest come first.
AT_ONCE = 3
OPTIONS: dict[str, tuple[str, ...]] = {"test": (), "interop": INTEROP_OPTIONS}


def main(run: str, arguments: Sequence[str]) -> int:
    keep_compiled_code()
    if arguments:
        return subprocess.call(pytest(*OPTIONS[run], *arguments))
    return run_parts({name: (*OPTIONS[run], *chosen) for name, chosen in PARTS[run].items()})


def keep_compiled_code() -> None:
    """As tests/conftest.py does, and before pytest starts: its plugins import much of Penstock before they read that
    file. Without compiled code the start of each part takes 2.1 s of CPU time instead of 0.9 s.
    """
    if sys.dont_write_bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".cache" / "bytecode")


def run_parts(parts: Mapping[str, Sequence[str]]) -> int:
    started = time.monotonic()
    (_, first), *others = parts.items()
    with ThreadPoolExecutor(AT_ONCE) as pool, Ending() as ending:
        running = {name: pool.submit(ending.run, chosen) for name, chosen in others}
        codes = [subprocess.call(pytest(*first))]
        for name, part in running.items():
            print(f"{name}, tested meanwhile:", flush=True)
            code, output = part.result()
            sys.stdout.buffer.write(output)
            sys.stdout.flush()
            codes.append(code)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    print(f"all parts together: {minutes} min {seconds} s")
    return int(any(codes))


class Ending:
    """Parts that run meanwhile end with the run, also where it is interrupted."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for process in self._processes:
            process.terminate()

    def run(self, chosen: Sequence[str]) -> tuple[int, bytes]:
        """The exit code, and what was said."""
        if self._is_over:
            return 1, b""
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(pytest(*chosen), stdout=output, stderr=subprocess.STDOUT) as process:
                self._processes.append(process)
                code = process.wait()
            output.seek(0)
            return code, output.read()


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
