"""A cluster whose brokers ask for TLS and a login: what is made for it before its first start."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from penstock.local_cluster.directory import ClusterDirectory
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.settings import BrokerPlace
from penstock.securing.setup import LISTENER, BrokerAddress, SecureSetup, SecureSetupError


def find_setup(directory: ClusterDirectory, *, is_wanted: bool) -> SecureSetup | None:
    """A cluster that was secure once stays so."""
    setup = SecureSetup(directory.security_dir)
    return setup if is_wanted or setup.is_there else None


def secure_places(directory: ClusterDirectory, places: Sequence[BrokerPlace]) -> list[BrokerPlace]:
    """Raises ClusterError where the cluster was founded without: nobody could log in to it."""
    setup = SecureSetup(directory.security_dir)
    founded = next((place for place in places if place.data_dir.exists()), None)
    if founded is not None and not setup.is_there:
        raise ClusterError(
            f"{directory.path} holds a cluster that is not secure, so that nobody could log in",
            "Take another directory, or see `Turn security on in a running cluster` in docs/guides/security.md.",
        )
    servers = ",".join(f"{place.host}:{place.port}" for place in places)
    addresses = [BrokerAddress(place.node_id, (place.host,)) for place in places]
    try:
        setup.prepare(addresses, datetime.datetime.now(datetime.UTC), servers)
    except SecureSetupError as error:
        raise ClusterError(str(error)) from error
    return [
        place._replace(listener=LISTENER, own={**setup.broker_properties(place.node_id), **setup.store_properties()})
        for place in places
    ]
