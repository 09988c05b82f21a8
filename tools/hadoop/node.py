"""A real HDFS, its daemons in one process, as Hadoop's own tests run them, and a real YARN with one node."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

from apache_kafka.jars import find_java
from hadoop.jars import fetch_hadoop_jars
from penstock.testing.processes import ServerGroup, ServerProcess, ServerProcessError, find_free_port

_START_TIMEOUT_S = 120.0
_SHELL_TIMEOUT_S = 120.0
_POLL_S = 0.2


class HdfsProcess(ServerProcess):
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, directory: Path) -> None:
        port = find_free_port()
        self.url = f"hdfs://127.0.0.1:{port}"
        self._config = directory / "config"
        manager = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
        super().__init__(
            "HDFS",
            [
                *(*_java("-Xmx512m"), manager, "-nomr", "-format", "-nnport", str(port)),
                *("-D", f"hdfs.minidfs.basedir={directory / 'data'}"),
            ],
            port=port,
            log_path=directory / "hdfs.log",
            start_timeout_s=_START_TIMEOUT_S,
        )

    def spawn(self) -> None:
        _write_settings(self._config / "core-site.xml", {"fs.defaultFS": self.url})
        super().spawn()

    def shell(self, *arguments: str) -> str:
        """What `hadoop fs` says."""
        java = _java("-Xmx256m", "-XX:TieredStopAtLevel=1", config=self._config)
        command = [*java, "org.apache.hadoop.fs.FsShell", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SHELL_TIMEOUT_S, check=False)
        if done.returncode:
            raise ServerProcessError(f"hadoop fs {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout


class YarnCluster(ServerGroup):
    """Its resource manager and one node; `config` is what HADOOP_CONF_DIR has to name for its clients."""

    def __init__(self, directory: Path) -> None:
        self.config = directory / "config"
        self._logs = directory / "logs"
        self._console = f"127.0.0.1:{find_free_port()}"
        server = "org.apache.hadoop.yarn.server"
        manager, node = find_free_port(), find_free_port()
        self._daemons = [
            _YarnDaemon("manager", f"{server}.resourcemanager.ResourceManager", manager, self.config),
            _YarnDaemon("node", f"{server}.nodemanager.NodeManager", node, self.config),
        ]
        own = {
            "resourcemanager.address": f"127.0.0.1:{manager}",
            "resourcemanager.webapp.address": self._console,
            "nodemanager.address": f"127.0.0.1:{node}",
            "nodemanager.local-dirs": str(directory / "local"),
            "nodemanager.log-dirs": str(self._logs),
            "nodemanager.resource.memory-mb": "4096",
            "nodemanager.vmem-check-enabled": "false",
            # What the tests' disk has left is enough.
            "nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        }
        ports = ("resourcemanager.scheduler", "resourcemanager.resource-tracker", "resourcemanager.admin",
                 "nodemanager.localizer", "nodemanager.webapp")  # fmt: skip
        own |= {f"{name}.address": f"127.0.0.1:{find_free_port()}" for name in ports}
        self._settings = {f"yarn.{name}": value for name, value in own.items()}

    def start_all(self, stack: ExitStack) -> None:
        queues = {"root.queues": "default", "root.default.capacity": "100", "maximum-am-resource-percent": "0.9"}
        _write_settings(self.config / "core-site.xml", {})
        _write_settings(self.config / "yarn-site.xml", self._settings)
        _write_settings(
            self.config / "capacity-scheduler.xml",
            {f"yarn.scheduler.capacity.{name}": value for name, value in queues.items()},
        )
        for daemon in self._daemons:
            stack.enter_context(daemon)
        self._wait_for_node()

    def containers(self) -> list[str]:
        """Those that its node has run, by the names of their applications and their own."""
        return sorted(str(path.relative_to(self._logs)) for path in self._logs.glob("application_*/container_*"))

    def _wait_for_node(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while b"RUNNING" not in self._ask("nodes"):
            if time.monotonic() > deadline:
                raise ServerProcessError(self._daemons[1].describe("is not known to its manager"))
            time.sleep(_POLL_S)

    def _ask(self, what: str) -> bytes:
        with urllib.request.urlopen(f"http://{self._console}/ws/v1/cluster/{what}", timeout=30) as answer:
            said: bytes = answer.read()
            return said


class _YarnDaemon(ServerProcess):
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, name: str, program: str, port: int, config: Path) -> None:
        super().__init__(
            f"YARN {name}",
            [*_java("-Xmx256m", "-XX:TieredStopAtLevel=1", config=config), program],
            port=port,
            log_path=config.with_name(f"{name}.log"),
            start_timeout_s=_START_TIMEOUT_S,
        )


def _write_settings(path: Path, settings: Mapping[str, str]) -> None:
    root = ElementTree.Element("configuration")
    for name, value in settings.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path)


def _java(*options: str, config: Path | None = None) -> list[str]:
    jars = f"{fetch_hadoop_jars()}/*"
    class_path = jars if config is None else f"{config}:{jars}"
    # Hadoop looks into Java's own classes.
    return [find_java(), *options, "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", class_path]
