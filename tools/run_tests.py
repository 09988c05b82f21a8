"""`make test`: in parts beside each other, since those of the pipelines spend half of their time waiting for Spark.

With arguments it is plain pytest: `make test ARGS='tests/unit -k batch'`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

PIPELINES = "tests/pipelines"
# Where every test starts Spark anew. The others of the pipelines share one session.
OWN_SPARK = (
    f"{PIPELINES}/test_cluster.py",
    f"{PIPELINES}/test_pipeline_cli.py",
    f"{PIPELINES}/test_pipeline_rounds.py",
)
MEANWHILE = {
    "the tests of the pipelines": (PIPELINES, *(f"--ignore={path}" for path in OWN_SPARK)),
    "the tests of pipelines with a Spark of their own": OWN_SPARK,
}


def main(arguments: Sequence[str]) -> int:
    if arguments:
        return subprocess.call(pytest(*arguments))
    with ExitStack() as stack:
        parts = [stack.enter_context(running(name, chosen)) for name, chosen in MEANWHILE.items()]
        codes = [subprocess.call(pytest(f"--ignore={PIPELINES}"))]
        codes += [finish() for finish in parts]
    return int(any(codes))


@contextmanager
def running(name: str, chosen: Sequence[str]) -> Iterator[Callable[[], int]]:
    """One that runs meanwhile; what is given waits for it, tells what came of it, and returns its exit code."""
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(pytest(*chosen), stdout=output, stderr=subprocess.STDOUT) as process,
    ):

        def finish() -> int:
            print(f"{name}, which ran meanwhile:", flush=True)
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
    sys.exit(main(sys.argv[1:]))
