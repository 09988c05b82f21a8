"""`make test`: the tests of the pipelines beside all others, since Spark's spend half of their time waiting.

With arguments it is plain pytest: `make test ARGS='tests/unit -k batch'`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence

PIPELINES = "tests/pipelines"


def main(arguments: Sequence[str]) -> int:
    if arguments:
        return subprocess.call(pytest(*arguments))
    with tempfile.TemporaryFile() as output:
        pipelines = subprocess.Popen(pytest(PIPELINES), stdout=output, stderr=subprocess.STDOUT)
        try:
            others = subprocess.call(pytest(f"--ignore={PIPELINES}"))
            print("the tests of the pipelines, which ran meanwhile:", flush=True)
            ended = pipelines.wait()
        finally:
            pipelines.terminate()
            pipelines.wait()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return others or ended


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
