"""A Spark standalone cluster, as the wheel has it: a master and workers whose executors can be killed."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pyspark

from penstock.testing.processes import ServerGroup, ServerProcess, ServerProcessError, find_free_port
from proof.pipeline.processes import Process, descendants, kill_process

SPARK_HOME = Path(pyspark.__file__).parent
# Of every process of a cluster and of its drivers: loopback only, small, and the wheel's own Spark.
ENVIRONMENT = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
_EXECUTOR = "CoarseGrainedExecutorBackend"
_REGISTER_TIMEOUT_S = 90.0
_POLL_S = 0.1


class SparkCluster(ServerGroup):
    def __init__(self, directory: Path, workers: int = 1, cores: int = 2) -> None:
        self._console_port = find_free_port()
        port = find_free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._master = _Daemon("master", directory / "master", port, "--webui-port", str(self._console_port))
        size = ("--webui-port", "0", "--cores", str(cores), "--memory", "1g")
        self._work = [directory / f"work-{number}" for number in range(workers)]
        self._workers = [
            _Daemon("worker", work, find_free_port(), *size, "--work-dir", str(work), self.url) for work in self._work
        ]

    def start_all(self, stack: ExitStack) -> None:
        for daemon in (self._master, *self._workers):
            stack.callback(daemon.kill_all)
            daemon.start()
        self._wait_for_workers()

    def executors(self) -> list[Process]:
        below = (process for worker in self._workers for process in descendants(worker.pid))
        return [process for process in below if _EXECUTOR in process.command]

    def applications(self) -> list[list[str]]:
        """Per worker, those whose executors it has run."""
        return [sorted(application.name for application in work.glob("app-*")) for work in self._work]

    def _wait_for_workers(self) -> None:
        """A worker listens before the master knows it."""
        deadline = time.monotonic() + _REGISTER_TIMEOUT_S
        while self._count_workers() < len(self._workers):
            if time.monotonic() > deadline:
                raise ServerProcessError(self._master.describe(f"knows {self._count_workers()} workers"))
            time.sleep(_POLL_S)

    def _count_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._console_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return 0


class _Daemon(ServerProcess):
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, role: str, directory: Path, port: int, *arguments: str) -> None:
        program = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        at = ("--host", "127.0.0.1", "--port", str(port))
        super().__init__(
            f"Spark {role}",
            [str(SPARK_HOME / "bin" / "spark-class"), program, *at, *arguments],
            port=port,
            log_path=directory.with_suffix(".log"),
            environment=ENVIRONMENT,
        )

    def kill_all(self) -> None:
        """Kills the process and the processes that it has started."""
        if self.is_running:
            below = descendants(self.pid)
            self.kill()
            for process in below:
                kill_process(process.pid)
