"""Checks the Spark master before a start: whether Spark knows its form, and whether a server answers there."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from penstock.core.sockets.host_names import failing_as_unknown
from penstock.pipelines.errors import PipelineError

# As Spark has them (SparkMasterRegex). By way of PySpark no other begins anything: spark-submit refuses it.
_LOCAL = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\]|-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\])?")
_STANDALONE = "spark://"
_KUBERNETES = "k8s://"
_FORMS = "local[*], spark://HOST:PORT, yarn and k8s://HOST:PORT"
_PORTS = {"https": 443, "http": 80}
_PROXIES = ("https_proxy", "http_proxy", "all_proxy")
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
# A master on a working network takes a connection within milliseconds; one of several may be down.
_PATIENCE_S = 1.5

Connect = Callable[[str, int], None]


def _connect(host: str, port: int) -> None:
    with failing_as_unknown():
        socket.create_connection((host, port), _PATIENCE_S).close()


def check_master(master: str, environment: Mapping[str, str] = os.environ, connect: Connect = _connect) -> None:
    """PipelineError where Spark cannot start there. An empty one is not ours to judge: spark-submit has it."""
    if not master or _LOCAL.fullmatch(master):
        return
    if master.startswith(_KUBERNETES):
        _find_kubernetes(master, environment, connect)
        return
    if master == "yarn":
        if not any(environment.get(name) for name in _HADOOP) and not _has_script(environment):
            raise PipelineError(
                "the master yarn needs Hadoop's configuration, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
                "Set one of them to the directory with yarn-site.xml.",
            )
        return
    if not master.startswith(_STANDALONE):
        raise PipelineError(f"there is no Spark master {master!r}", f"Masters are {_FORMS}.")
    _find_one(master, connect)


def _find_kubernetes(master: str, environment: Mapping[str, str], connect: Connect) -> None:
    """Spark calls the API server first, again and again, and fills a screen with errors if it is away. Behind a proxy
    only Spark can find out."""
    if any(name.lower() in _PROXIES and value for name, value in environment.items()):
        return
    address = master.removeprefix(_KUBERNETES)
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        host, port = None, 0
    if not host:
        raise PipelineError(f"{address!r} in the Spark master {master!r} is no address", f"Masters are {_FORMS}.")
    try:
        connect(host, port)
    except OSError as error:
        raise PipelineError(
            f"no Kubernetes API server answers at {host}:{port} ({error.strerror or error})",
            "Name another one with --master: `kubectl cluster-info` says where it is.",
        ) from error


def _has_script(environment: Mapping[str, str]) -> bool:
    """spark-env.sh, which may set variables that the environment lacks."""
    directories = [environment.get("SPARK_CONF_DIR"), os.path.join(environment.get("SPARK_HOME", ""), "conf")]
    return any(os.path.exists(os.path.join(each, "spark-env.sh")) for each in directories if each)


def _find_one(master: str, connect: Connect) -> None:
    reasons = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise PipelineError(f"{address!r} in the Spark master {master!r} is no HOST:PORT", f"Masters are {_FORMS}.")
        try:
            return connect(host.strip("[]"), int(port))
        except OSError as error:
            reasons.append(f"{address} ({error.strerror or error})")
    raise PipelineError(
        f"no Spark master answers at {', '.join(reasons)}",
        "Start it, or name another one with --master; local[*] is this machine.",
    )
