"""A Spark standalone cluster from the wheel: a master and workers, each a process with its executors in one group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from penstock.testing.processes import find_free_port

HOME = Path(pyspark.__file__).parent
START_S = 90.0
STOP_S = 15.0


def spark_environment() -> dict[str, str]:
    """For every process of the cluster and for its drivers: loopback only, small, and the wheel's own Spark."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    return inherited | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}


class StandaloneCluster:
    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.directory = directory
        self.port, self._console_port = find_free_port(), find_free_port()
        self._worker_count = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        try:
            self._launch("master", "--port", str(self.port), "--webui-port", str(self._console_port))
            self._wait(lambda state: state["status"] == "ALIVE", "a master")
            for number in range(self._worker_count):
                directory = self.directory / f"worker-{number}"
                self._launch(
                    *("worker", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(directory), self.url),
                )
            self._wait(lambda state: state["aliveworkers"] == self._worker_count, f"{self._worker_count} workers")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def executors(self) -> list[list[str]]:
        """Per worker, the applications whose executors it has run."""
        return [
            sorted(application.name for application in (self.directory / f"worker-{number}").glob("app-*"))
            for number in range(self._worker_count)
        ]

    def _launch(self, role: str, *arguments: str) -> None:
        program = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        with (self.directory / f"{role}-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), program, "--host", "127.0.0.1", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=spark_environment(),
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait(self, is_there: Callable[[dict[str, Any]], bool], what: str) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            dead = [process for process in self._processes if process.poll() is not None]
            state = self._ask()
            if state is not None and is_there(state):
                return
            if dead:
                break
            time.sleep(0.1)
        logs = "\n".join(log.read_text(errors="replace")[-1500:] for log in self.directory.glob("*.log"))
        raise AssertionError(f"the cluster has not {what}:\n{logs}")

    def _ask(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._console_port}/json/", timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def _stop(self) -> None:
        """Workers first, whose executors are in their groups; whoever does not go is killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in reversed(self._processes):
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + STOP_S
            for process in self._processes:
                try:
                    process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue
        self._processes.clear()
