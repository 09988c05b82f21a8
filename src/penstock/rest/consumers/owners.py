"""Several proxies: the owner of each consumer instance.

A consumer instance lives in one proxy. The names of its group and of itself determine the owner: the proxy whose id
hashes highest together with them (rendezvous hashing). So every proxy knows the owner without a request, and a caller
cannot make a proxy redirect clients to an address that is not in the list of peers. All proxies need the same list.

A name that a caller chooses may belong to another proxy: the answer to its creation, too, is 307 then. A proxy that
generates a name generates one of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from penstock.core.config.types import ConfigError

_KEY = "penstock.rest.peers"


class Peer(NamedTuple):
    id: str
    url: str  # without a trailing slash


class Owners:
    def __init__(self, own_id: str, peers: Mapping[str, str]) -> None:
        """`peers` are the other proxies, by id."""
        self._own_id = own_id
        self._peers = dict(peers)
        self._ids = (own_id, *peers)

    @property
    def has_peers(self) -> bool:
        return bool(self._peers)

    def elsewhere(self, group: str, instance: str) -> Peer | None:
        """The proxy that has, or would have, this instance; None for this proxy itself."""
        if not self._peers:
            return None
        owner = max(self._ids, key=lambda each: _weight(each, group, instance))
        return None if owner == self._own_id else Peer(owner, self._peers[owner])

    def own_name(self, group: str, make: Callable[[], str]) -> str:
        """A name that belongs to this proxy; takes as many tries on average as there are proxies."""
        while True:
            name = make()
            if self.elsewhere(group, name) is None:
                return name


def _weight(proxy_id: str, group: str, instance: str) -> bytes:
    text = "\0".join((proxy_id, group, instance))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def read_peers(own_id: str, entries: Sequence[str]) -> Owners:
    """From the setting: ID=URL each; this proxy may be among them. Raises ConfigError."""
    peers: dict[str, str] = {}
    for entry in entries:
        name, equals, url = entry.partition("=")
        parts = urlsplit(url)
        if not equals or not name or parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ConfigError.of_value(_KEY, entry, "Expected ID=http://HOST:PORT")
        peers[name.strip()] = url.strip().rstrip("/")
    peers.pop(own_id, None)
    if peers and not own_id:
        raise ConfigError(f"{_KEY} is given, so `id` is needed: the name of this proxy among them", key="id")
    return Owners(own_id, peers)
