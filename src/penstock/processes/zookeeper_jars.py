"""How to start a ZooKeeper: Java, and the jars of ZooKeeper that PySpark's wheel contains.

Spark uses ZooKeeper itself, so its wheel holds ZooKeeper's server whole. PySpark is looked for and never imported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from penstock.core.extras import pip_command

# The jars of the server, by the beginning of their names; the rest of a name is its version. Only these come on the
# class path: all of Spark's 300 jars cost a second of start-up.
_JARS = (
    "zookeeper-jute-",
    "zookeeper-",
    "slf4j-api-",
    "log4j-api-",
    "log4j-core-",
    "log4j-slf4j2-impl-",
    "metrics-core-",
    "snappy-java-",
)
# Last on the class path, and so not even opened unless the server's settings need TLS or SASL.
_NETTY = ("netty-",)
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_ELSEWHERE = "Or run a ZooKeeper of your own and name it with zookeeper.connect."


class ZooKeeperMissingError(Exception):
    """There is no ZooKeeper to start. `hint` gives the remedy."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}. {hint}")
        self.message = message
        self.hint = hint


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        hint = f"Install it (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it. {_ELSEWHERE}"
        raise ZooKeeperMissingError("ZooKeeper needs Java, and there is no java", hint)
    return java


def find_class_path() -> str:
    directory = _jar_directory()
    hint = f"{pip_command('cluster')} brings them. {_ELSEWHERE}"
    if directory is None:
        raise ZooKeeperMissingError("the jars of ZooKeeper come with PySpark, which is not installed", hint)
    jars = [jar for name in _JARS for jar in _jars_of(directory, name)[:1]]
    if len(jars) < len(_JARS):
        raise ZooKeeperMissingError(f"not all jars of ZooKeeper are in {directory}", hint)
    jars += [jar for name in _NETTY for jar in _jars_of(directory, name)]
    return os.pathsep.join(str(jar) for jar in jars)


def _jars_of(directory: Path, name: str) -> list[Path]:
    """A name may be the beginning of another's, so a version must follow; netty's parts are taken all."""
    found = sorted(directory.glob(f"{name}*.jar"))
    return found if name in _NETTY else [jar for jar in found if jar.name.removeprefix(name)[:1].isdecimal()]


def _jar_directory() -> Path | None:
    specification = importlib.util.find_spec("pyspark")
    homes = list(specification.submodule_search_locations or ()) if specification is not None else []
    home = os.environ.get("SPARK_HOME")
    for candidate in [*homes, *([home] if home else [])]:
        directory = Path(candidate) / "jars"
        if directory.is_dir():
            return directory
    return None
