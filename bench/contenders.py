"""The two brokers, and what the operating system says about their processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from apache_kafka.node import ApacheKafkaNode
from penstock.testing.processes import BrokerProcess, ServerProcess


class Served(Protocol):
    """What clients reach: a broker, or several as one cluster."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def is_running(self) -> bool: ...


class Make(Protocol):
    """A broker that is not yet started; `config` for a row that needs more than `SETTINGS`, `port` where that names
    listeners.
    """

    def __call__(self, directory: Path, config: Mapping[str, str] = {}, port: int | None = None) -> ServerProcess: ...


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    make: Make


# The same for both. How often the cleaner looks for work is only waited for. Files of deleted topics go a second later
# and not a minute, while the row that deletes them is measured. Everything else is left to the defaults.
SETTINGS = {"log.cleaner.backoff.ms": "1000", "log.segment.delete.delay.ms": "1000"}


def _make_penstock(directory: Path, config: Mapping[str, str] = {}, port: int | None = None) -> ServerProcess:
    """With bytecode, as a package has it once it is installed; the first start writes it. Where the environment forbids
    to write bytecode, every start would compile the sources again, which takes longer than all the rest."""
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}
    return BrokerProcess(directory / "data", port=port, config={**SETTINGS, **config}, environment=bytecode)


def _make_apache_kafka(directory: Path, config: Mapping[str, str] = {}, port: int | None = None) -> ServerProcess:
    return ApacheKafkaNode(directory / "node", config={**SETTINGS, **config}, port=port)


PENSTOCK = Contender("Penstock", _make_penstock)
APACHE_KAFKA = Contender("Apache Kafka", _make_apache_kafka)
CONTENDERS = (PENSTOCK, APACHE_KAFKA)


def data_directory(server: ServerProcess) -> Path:
    assert isinstance(server, BrokerProcess | ApacheKafkaNode)
    return server.data_dir


def cpu_seconds(pid: int) -> float:
    """User and system time of the process since it started, all threads, and of the children that it has or had."""
    return sum(_cpu_seconds(Path(f"/proc/{each}/stat")) for each in _family(pid))


def _cpu_seconds(path: Path) -> float:
    # The second field is the command's name and may hold spaces; the numbers follow its closing parenthesis.
    fields = _read(path).rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    """Of the process and its children."""
    return _megabytes(pid, "status", "VmRSS:")


def proportional_megabytes(pid: int) -> float:
    """The same, but of a page that several processes share only a part: three brokers run the same interpreter."""
    return _megabytes(pid, "smaps_rollup", "Pss:")


def _megabytes(pid: int, name: str, field: str) -> float:
    lines = [line for each in _family(pid) for line in _read(Path(f"/proc/{each}/{name}")).splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def _family(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def _read(path: Path) -> str:
    """Nothing when the process has ended meanwhile."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class CpuMeter:
    """CPU seconds that brokers and their children used while a block ran."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self, *servers: ServerProcess) -> Iterator[None]:
        before = sum(cpu_seconds(server.pid) for server in servers)
        yield
        self.seconds = sum(cpu_seconds(server.pid) for server in servers) - before
