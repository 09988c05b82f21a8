"""Passwords in the store of a single node that does not run: nobody of its users has a password, or it is lost.

A cluster that is to be founded takes its users from a file instead (`penstock.first.users.file`). While a broker runs
the store is locked, and users are added over the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.cluster.controller.takeover import change_from_outside
from penstock.cluster.decisions.security.users import Upsertion, set_passwords
from penstock.cluster.image import MetadataImage
from penstock.cluster.metadata import Metadata
from penstock.cluster.security_changes import check_storable
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.server.stores import open_store


async def write_passwords(data: Path, users: Sequence[Upsertion], clock: Clock) -> None:
    """All of them or none. A store that is not there yet is made. Raises ApiError where a password is not accepted,
    StoreError, also where a broker runs, and LogDirectoryError where the directory belongs elsewhere.
    """
    config = BrokerConfig.parse({"log.dirs": str(data)})

    def decide(image: MetadataImage) -> MetadataImage:
        security = set_passwords(image.security, users)
        check_storable(image, security)
        return replace(image, security=security)

    store = await open_store(config, is_temporary=False, metrics=StoreMetrics())
    try:
        decide((await Metadata.load(store, config)).image)  # a refusal leaves the metadata as they were
        await change_from_outside(store, decide, clock.now_ms(), can_take_steps=False)
    finally:
        await store.close()
