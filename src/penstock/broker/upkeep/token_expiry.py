"""Removes expired delegation tokens from the metadata. The controller does it."""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.cluster.decisions.security.tokens import decide_sweep_tokens, expired_tokens


async def remove_expired_tokens(broker: Broker) -> None:
    """Costs nothing where there are no tokens."""
    now_ms = broker.clock.now_ms()
    if broker.metadata.is_controller and expired_tokens(broker.metadata.image.security, now_ms):
        await broker.metadata.security.apply(lambda security: decide_sweep_tokens(security, now_ms))
