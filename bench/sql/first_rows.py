"""How soon `penstock sql` shows rows: as a shell in a terminal, and as a command with one question.

The shell is up once it has answered a statement that needs the engine and not Spark; Spark's workers may not be there
yet, so that the first question is the slowest that a person sees.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import BenchError
from bench.loads import Figures
from bench.sql.orders import TOPIC

PATIENCE_S = 120.0
# What a person does between the prompt and the first question at the least.
TYPING_S = 2.0
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
# The ids of orders, in a row and not in the question.
_ROW = r"[0-9a-f]{8}-[0-9a-f]{4}-"
_SMALL = f"SELECT id, amount FROM {TOPIC} LIMIT 5"  # noqa: S608  # the name is ours
_FILTERED = f"SELECT id, amount FROM {TOPIC} WHERE _partition = 1 AND _offset BETWEEN 100 AND 104"  # noqa: S608


class Terminal:
    def __init__(self, file: int) -> None:
        self._file = file
        self._said = ""

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def wait_for(self, pattern: str) -> float:
        """Seconds until the pattern was there. What follows it is left for the next time."""
        started = time.perf_counter()
        while not (found := re.search(pattern, self._said)):
            if time.perf_counter() - started > PATIENCE_S:
                raise BenchError(f"the shell did not show {pattern!r} within {PATIENCE_S:.0f} s:\n{self._said[-1000:]}")
            if select.select([self._file], [], [], 0.5)[0]:
                self._said += _ESCAPE.sub("", os.read(self._file, 65536).decode(errors="replace"))
        self._said = self._said[found.end() :]
        return time.perf_counter() - started


@contextmanager
def _shell(arguments: list[str], state: Path) -> Iterator[Terminal]:
    child, file = pty.fork()
    if child == 0:
        os.environ.update({"TERM": "xterm", "COLUMNS": "120", "LINES": "40", "XDG_STATE_HOME": str(state)})
        os.execv(sys.executable, [sys.executable, "-m", "penstock", "sql", *arguments])  # noqa: S606
    try:
        yield Terminal(file)
    finally:
        os.close(file)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def measure_shell(bootstrap: str, registry: str, directory: Path) -> Figures:
    with _shell(_arguments(bootstrap, registry, directory), directory) as terminal:
        prompt = terminal.wait_for("sql> ")
        terminal.type("SHOW TABLES;\r")
        up = prompt + terminal.wait_for(r"1 row, [\d.]+ s")
        time.sleep(TYPING_S)
        figures = {"prompt": prompt, "shell-up": up}
        for key, question in (("first", _SMALL), ("second", _SMALL), ("third", _FILTERED)):
            terminal.type(f"{question};\r")
            figures[f"{key}-row"] = terminal.wait_for(_ROW)
            terminal.wait_for(r"5 rows, [\d.]+ s")
        terminal.type("\x04")
    return figures


def measure_command(bootstrap: str, registry: str, directory: Path) -> Figures:
    """From starting the process."""
    command = [sys.executable, "-m", "penstock", "sql", *_arguments(bootstrap, registry, directory), _SMALL]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if re.search(_ROW, line):
                taken = time.perf_counter() - started
                process.communicate(timeout=PATIENCE_S)
                return {"command-row": taken}
    raise BenchError("the command showed no row")


def _arguments(bootstrap: str, registry: str, directory: Path) -> list[str]:
    return ["-b", bootstrap, "--registry", registry, "--views", str(directory / "views.sql")]
