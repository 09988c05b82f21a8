"""The `penstock` command as a process, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).parents[2] / "src"
# No command here takes long; one that hangs should fail the test that started it and no other.
TIMEOUT_S = 60


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

    def command(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "penstock", *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(SOURCE), "PENSTOCK_BOOTSTRAP": self.bootstrap_servers}

    def try_run(self, *arguments: str, stdin: bytes = b"") -> Result:
        done = subprocess.run(
            self.command(arguments),
            input=stdin,
            capture_output=True,
            env=self.environment(),
            timeout=TIMEOUT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr.decode())

    def run(self, *arguments: str, stdin: bytes = b"") -> Result:
        result = self.try_run(*arguments, stdin=stdin)
        assert result.code == 0, f"penstock {' '.join(arguments)} ended with {result.code}: {result.err}"
        return result

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment()
        )

    def new_topic(self, *options: str) -> str:
        name = f"cli-{uuid.uuid4().hex[:12]}"
        self.run("topics", "create", name, *options)
        return name
