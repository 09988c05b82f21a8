"""`make test` and `make interop`: in parts beside each other, since servers keep a test waiting for half of its time.

`run_tests.py test` and `run_tests.py interop` run every part; with arguments behind they are plain pytest:
`make test ARGS='tests/unit -k batch'`, `make interop AREA=tools`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

PIPELINES = "tests/pipelines"
# Where tests start brokers and wait for them, so in three parts that wait beside each other. Clients share brokers;
# what is hurt, stopped or attacked is a broker of the test's own; those with clusters wait longest.
INTEGRATION = "tests/integration"
WITH_CLUSTERS = f"{INTEGRATION}/cluster"
WITH_CLIENTS = ("tests/clients", f"{INTEGRATION}/client", f"{INTEGRATION}/registry")
# Where hypothesis and the simulation compute: as long as all other tests of the code.
MODELS = ("tests/properties", "tests/scenarios")
# Where every test starts Spark anew. The others of the pipelines share one session.
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
        "models and generated cases": MODELS,
        "brokers and their clients": WITH_CLIENTS,
        "brokers that are hurt": (INTEGRATION, *(f"--ignore={path}" for path in (WITH_CLUSTERS, *WITH_CLIENTS))),
        "clusters that run": (WITH_CLUSTERS,),
        "the pipelines": (PIPELINES, *(f"--ignore={path}" for path in OWN_SPARK)),
        "pipelines with a Spark of their own": OWN_SPARK,
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
OPTIONS: dict[str, tuple[str, ...]] = {"test": (), "interop": INTEROP_OPTIONS}


def main(run: str, arguments: Sequence[str]) -> int:
    if arguments:
        return subprocess.call(pytest(*OPTIONS[run], *arguments))
    return run_parts({name: (*OPTIONS[run], *chosen) for name, chosen in PARTS[run].items()})


def run_parts(parts: Mapping[str, Sequence[str]]) -> int:
    started = time.monotonic()
    (_, first), *others = parts.items()
    with ExitStack() as stack:
        running = [stack.enter_context(run_meanwhile(name, chosen)) for name, chosen in others]
        codes = [subprocess.call(pytest(*first)), *(finish() for finish in running)]
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    print(f"all parts together: {minutes} min {seconds} s")
    return int(any(codes))


@contextmanager
def run_meanwhile(name: str, chosen: Sequence[str]) -> Iterator[Callable[[], int]]:
    """A part that runs meanwhile. The callable waits for its end, shows its output and returns its exit code."""
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(pytest(*chosen), stdout=output, stderr=subprocess.STDOUT) as process,
    ):

        def finish() -> int:
            print(f"{name}, tested meanwhile:", flush=True)
            code = process.wait()
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
            return code

        try:
            yield finish
        finally:
            process.terminate()


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
