"""The `penstock` command, as a user runs it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.main import main
from penstock.cli.options import BOOTSTRAP_VARIABLE

SOURCE = Path(__file__).parents[2] / "src"


class Result(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Cli(NamedTuple):
    bootstrap_servers: str

    def try_run(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Within this process: starting an interpreter for each command would take most of the tests' time."""
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        before = sys.stdin, os.environ.get(BOOTSTRAP_VARIABLE)
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
        os.environ[BOOTSTRAP_VARIABLE] = self.bootstrap_servers
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments)
        finally:
            sys.stdin, bootstrap = before
            if bootstrap is None:
                del os.environ[BOOTSTRAP_VARIABLE]
            else:
                os.environ[BOOTSTRAP_VARIABLE] = bootstrap
        out.flush()
        buffer = out.buffer
        assert isinstance(buffer, io.BytesIO)
        return Result(code, buffer.getvalue(), err.getvalue())

    def run(self, *arguments: str, stdin: bytes = b"") -> Result:
        result = self.try_run(*arguments, stdin=stdin)
        assert result.code == 0, f"penstock {' '.join(arguments)} ended with {result.code}: {result.err}"
        return result

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """As a process of its own, for what only a process shows: signals, closed pipes, a reader in the background."""
        with subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE), BOOTSTRAP_VARIABLE: self.bootstrap_servers},
        ) as process:
            try:
                yield process
            finally:
                process.kill()  # nothing to a process that has ended

    def new_topic(self, *options: str) -> str:
        name = f"cli-{uuid.uuid4().hex[:12]}"
        self.run("topics", "create", name, *options)
        return name
