"""A real HDFS, its daemons in one process, as Hadoop's own tests run them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from apache_kafka.jars import find_java
from hadoop.jars import fetch_hadoop_jars
from penstock.testing.processes import ServerProcess, ServerProcessError, find_free_port

_START_TIMEOUT_S = 120.0
_SHELL_TIMEOUT_S = 120.0


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
        self._config.mkdir(parents=True, exist_ok=True)
        property_ = f"<property><name>fs.defaultFS</name><value>{self.url}</value></property>"
        (self._config / "core-site.xml").write_text(f"<configuration>{property_}</configuration>")
        super().spawn()

    def shell(self, *arguments: str) -> str:
        """What `hadoop fs` says."""
        java = _java("-Xmx256m", "-XX:TieredStopAtLevel=1", config=self._config)
        command = [*java, "org.apache.hadoop.fs.FsShell", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SHELL_TIMEOUT_S, check=False)
        if done.returncode:
            raise ServerProcessError(f"hadoop fs {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout


def _java(*options: str, config: Path | None = None) -> list[str]:
    jars = f"{fetch_hadoop_jars()}/*"
    class_path = jars if config is None else f"{config}:{jars}"
    # Hadoop looks into Java's own classes.
    return [find_java(), *options, "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", class_path]
