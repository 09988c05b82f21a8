"""Somebody who reaches a cluster's ZooKeeper and has no login there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import BadArgumentsError, KazooException, NoAuthError

import penstock
from penstock.local_cluster.process_members import ProcessMembers


@contextlib.contextmanager
def stranger_at(cluster: penstock.Cluster) -> Iterator[KazooClient]:
    members = cluster.members
    assert isinstance(members, ProcessMembers)
    assert members.zookeeper is not None
    with stranger(members.zookeeper.connect) as client:
        yield client


@contextlib.contextmanager
def stranger(servers: str) -> Iterator[KazooClient]:
    client = KazooClient(servers)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


class Deeds(NamedTuple):
    read: set[str]
    done: list[str]  # what was changed, or would have been but for something else than the access lists


def try_everything(client: KazooClient) -> Deeds:
    """To every node that the stranger finds, from the highest on."""
    deeds = Deeds(set(), [])
    paths = ["/"]
    for path in paths:
        child = f"{path.rstrip('/')}/stranger"
        with contextlib.suppress(NoAuthError):
            client.get(path)
            deeds.read.add(path)
        with contextlib.suppress(NoAuthError):
            paths += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
        for name, deed in _deeds(client, path, child):
            try:
                deed()
            except (NoAuthError, BadArgumentsError):  # the second is for nodes of ZooKeeper's own
                continue
            except KazooException as error:
                deeds.done.append(f"{name} {path}: {type(error).__name__}")
            else:
                deeds.done.append(f"{name} {path}")
    return deeds


def _deeds(client: KazooClient, path: str, child: str) -> list[tuple[str, Callable[[], object]]]:
    return [
        ("set", lambda: client.set(path, b"stranger")),
        ("create below", lambda: client.create(child)),
        ("give access to", lambda: client.set_acls(path, client.get_acls(path)[0])),
        ("delete", lambda: client.delete(path)),
    ]
