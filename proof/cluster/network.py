"""The network between the members of a cluster, and how it is cut.

With root each member has a network namespace of its own, and a bridge in a hub namespace joins them: as near to several
machines as one machine comes. A cut is silent: packets vanish, and nobody is told. This process, with the clients in
it, is joined to the bridge too.

Names hold the number of this process, so that runs beside each other do not meet, and what a run that was killed has
left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

# For measurements between machines (RFC 2544): nobody's real addresses. One network of 254 addresses for each run.
_NETWORKS = [f"198.{18 + number // 256}.{number % 256}" for number in range(512)]
# No run of a process gets the network of the run before: a client of that run that has not ended yet would reconnect
# to the new brokers, and librdkafka's producer would create its topics there, with the brokers' number of partitions.
_NUMBERS = itertools.count(os.getpid())
# No member has it, so the bridge has nobody to give its packets to.
_NOBODYS_ADDRESS = "02:00:00:00:00:99"
_NAMESPACE = re.compile(r"penstock-(\d+)-\d+-\w+")
_NEEDED = ("ip", "nsenter")
CLIENTS = "clients"


class Network(Protocol):
    """Members are known by their names."""

    @property
    def name(self) -> str:
        """What it is, for the report."""

    def host(self, member: str) -> str:
        """The address at which a member listens."""

    def prefix(self, member: str) -> Sequence[str]:
        """What a command begins with, so that it runs where the member is."""

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between these two."""

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """What `sender` sends to `receiver` is lost; the other direction works."""

    def isolate(self, member: str) -> None:
        """From all others, and from the clients."""

    def heal(self) -> None:
        """Takes all cuts back."""

    def close(self) -> None: ...


def can_make_namespaces() -> bool:
    return os.geteuid() == 0 and all(shutil.which(program) for program in _NEEDED)


class Namespaces:
    """A namespace for each member. `Network` by namespaces."""

    name = "network namespaces"

    def __init__(self, members: Sequence[str]) -> None:
        remove_leftovers()
        self._number, self._uplink = _take_network()
        self._addresses = {CLIENTS: f"{_NETWORKS[self._number]}.1"}
        self._undo: list[list[str]] = []
        try:
            self._build(members)
        except BaseException:
            self.close()
            raise

    def host(self, member: str) -> str:
        return self._addresses[member]

    def prefix(self, member: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self._namespace(member)}"]

    def cut(self, one: str, other: str) -> None:
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        namespace, address = self._namespace(sender), self.host(receiver)
        _ip("-n", namespace, "neigh", "replace", address, "lladdr", _NOBODYS_ADDRESS, "dev", "eth0", "nud", "permanent")
        self._undo.append(["-n", namespace, "neigh", "del", address, "dev", "eth0"])

    def isolate(self, member: str) -> None:
        hub = self._namespace("hub")
        _ip("-n", hub, "link", "set", member, "nomaster")
        self._undo.append(["-n", hub, "link", "set", member, "master", "bridge"])

    def heal(self) -> None:
        while self._undo:
            _ip(*self._undo.pop())

    def close(self) -> None:
        _remove_namespaces(self._namespace(""))
        with contextlib.suppress(subprocess.CalledProcessError):  # gone with the other end, unless that never was
            _ip("link", "del", self._uplink)

    def _namespace(self, member: str) -> str:
        return f"penstock-{os.getpid()}-{self._number}-{member}"

    def _build(self, members: Sequence[str]) -> None:
        hub = self._namespace("hub")
        _ip("netns", "add", hub)
        _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", hub, "link", "set", "bridge", "up")
        _ip("link", "set", f"{self._uplink}-hub", "netns", hub, "name", CLIENTS)
        self._join_bridge(hub, CLIENTS)
        _ip("addr", "add", f"{self._addresses[CLIENTS]}/24", "dev", self._uplink)
        _ip("link", "set", self._uplink, "up")
        for number, member in enumerate(members, start=11):
            address = self._addresses[member] = f"{_NETWORKS[self._number]}.{number}"
            namespace = self._namespace(member)
            _ip("netns", "add", namespace)
            _ip("-n", hub, "link", "add", member, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            self._join_bridge(hub, member)
            _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")

    @staticmethod
    def _join_bridge(hub: str, member: str) -> None:
        _ip("-n", hub, "link", "set", member, "master", "bridge")
        _ip("-n", hub, "link", "set", member, "up")


def remove_leftovers() -> None:
    """Namespaces of runs that were killed."""
    for name in _list_namespaces():
        match = _NAMESPACE.fullmatch(name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _remove_namespaces(name)


def _take_network() -> tuple[int, str]:
    """A number whose network nobody uses. To make a link of that name is what takes it: two runs cannot both do so."""
    for _ in _NETWORKS:
        number = next(_NUMBERS) % len(_NETWORKS)
        uplink = f"penstock{number}"
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "add", uplink, "type", "veth", "peer", "name", f"{uplink}-hub")
            return number, uplink
    raise OSError("no network is left for another cluster")


def _list_namespaces() -> list[str]:
    directory = Path("/run/netns")
    return sorted(os.listdir(directory)) if directory.is_dir() else []


def _remove_namespaces(beginning: str) -> None:
    for name in _list_namespaces():
        if name.startswith(beginning):
            _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)  # noqa: S607 - found on the path
    except subprocess.CalledProcessError as error:
        error.add_note(f"{' '.join(error.cmd)}: {error.stderr.strip()}")
        raise
