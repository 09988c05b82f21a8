"""The directory of a cluster: one user at a time, and ports that stay the same from start to start.

cluster.json         the ports, for the next start
zookeeper/           ZooKeeper's data; zookeeper.log is its output
broker-1/            the data of broker 1
broker-1.properties  its settings, written anew at each start: `penstock broker start --config` takes them
broker-1.log         its output
requests/            requests of other commands to the one that runs the cluster
security/            certificates, users and the file for clients, where the cluster is secure
penstock-secure      is there where the cluster is secure, whatever is lost of security/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from penstock.core.leftovers import make_temporary, remove_temporary
from penstock.core.words.failure_text import describe_os_error
from penstock.local_cluster.errors import ClusterError
from penstock.log.storage.files import Files, OpenFile
from penstock.security_setup.places import MARK_FILE

_FORMAT = 1
LOCK = ".lock"
_PORTS = "cluster.json"


@dataclass(frozen=True, slots=True)
class Ports:
    brokers: Mapping[int, int] = field(default_factory=dict)  # by node id
    zookeeper: int | None = None


class ClusterDirectory:
    def __init__(self, path: Path, lock: OpenFile, is_temporary: bool) -> None:
        self.path = path
        self.is_temporary = is_temporary
        self._lock = lock

    @classmethod
    def open(cls, path: Path | None) -> Self:
        """Without a path the directory is temporary, and removed when it is closed."""
        chosen = make_temporary("penstock-cluster-") if path is None else path.absolute()
        try:
            chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = Files().lock(chosen / LOCK)
        except BlockingIOError:
            hint = "Stop that one first, or give this one a directory of its own."
            raise ClusterError(f"{chosen} is in use by another cluster", hint) from None
        except OSError as error:
            raise ClusterError(describe_os_error(error)) from error
        return cls(chosen, lock, path is None)

    def close(self) -> None:
        self._lock.close()
        if self.is_temporary:
            remove_temporary(self.path)

    def broker_dir(self, node_id: int) -> Path:
        return self.path / f"broker-{node_id}"

    @property
    def security_dir(self) -> Path:
        return security_directory(self.path)

    @property
    def secure_mark(self) -> Path:
        return self.path / MARK_FILE

    @property
    def zookeeper_dir(self) -> Path:
        return self.path / "zookeeper"

    def read_ports(self) -> Ports:
        return read_ports(self.path)

    def write_ports(self, ports: Ports) -> None:
        document = {
            "format": _FORMAT,
            "zookeeper": ports.zookeeper,
            "brokers": {str(node_id): port for node_id, port in ports.brokers.items()},
        }
        (self.path / _PORTS).write_text(json.dumps(document, indent=2) + "\n")


def security_directory(directory: Path) -> Path:
    return directory / "security"


def read_ports(directory: Path) -> Ports:
    """Those of the last start, perhaps of a cluster that runs now."""
    path = directory / _PORTS
    if directory.is_file():
        raise ClusterError(f"{directory} is a file, not a directory")
    try:
        document = json.loads(path.read_text())
        brokers = {int(node_id): int(port) for node_id, port in document["brokers"].items()}
        zookeeper = document["zookeeper"]
        return Ports(brokers, None if zookeeper is None else int(zookeeper))
    except FileNotFoundError:
        return Ports()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "Delete the file: ports are chosen anew, and no data is lost."
        raise ClusterError(f"{path} does not tell the cluster's ports: {error!r}", hint) from None
