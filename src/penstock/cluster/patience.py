"""The wait of a starting broker for a store that does not give it the metadata yet.

- A connection that is lost for a moment must not end a start. The wait has the timeout with which the store was opened.
- If another program has deleted or overwritten a node of the log or of its snapshot, the controller, which checks once
  a minute, repairs it. So a broker waits for that as long as other brokers are registered. Without others no broker can
  repair it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.cluster.controller.upkeep import INSPECTION_S
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store, StoreError, StoreErrorKind
from penstock.cluster.store.tree_walk import names_below

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# The connection was lost, and may be back by the next attempt.
_PASSING = (StoreErrorKind.UNAVAILABLE, StoreErrorKind.OUTCOME_UNKNOWN, StoreErrorKind.SESSION_ENDED)
_RETRY_S = 0.2
# The controller checks the log, resigns, and the next elected controller writes the log again.
_MENDING_S = 1.5 * INSPECTION_S
# Each attempt reads all of the metadata.
_MENDING_RETRY_S = 0.5
# Supervisors take a starting broker for dead that logs nothing for a minute.
_TELL_EVERY_S = 15.0


async def load_patiently(
    load: Callable[[], Awaitable[Value]], store: Store, patience_s: float, mending_s: float = _MENDING_S
) -> Value:
    """The result of `load`. Raises its StoreError when the time is over, or where a wait cannot help."""
    if not math.isfinite(store.session_timeout_s):  # a file: there are no other brokers
        return await load()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    mended_by: float | None = None
    tell_at = 0.0
    while True:
        try:
            return await load()
        except StoreError as error:
            now = loop.time()
            if error.kind in _PASSING and now < deadline:
                logger.warning("the metadata is loaded again: %s", error)
                pause_s = _RETRY_S
            elif await _is_being_mended(store, error) and now < (mended_by or now + mending_s):
                mended_by = mended_by or now + mending_s
                deadline = now + patience_s  # the store has answered: a later loss of the connection is a new loss
                pause_s = _MENDING_RETRY_S
                if now >= tell_at:
                    tell_at = now + _TELL_EVERY_S
                    logger.warning(
                        "waiting up to %.0f s more for the controller, which looks once a minute, to mend the log of "
                        "the metadata: %s",
                        mended_by - now,
                        error,
                    )
            else:
                raise
        await asyncio.sleep(pause_s)


async def _is_being_mended(store: Store, error: StoreError) -> bool:
    """The position of the log is not among these: a broker of an earlier version cannot read it, and never will."""
    if error.kind is not StoreErrorKind.CORRUPT or not error.path.startswith((f"{znodes.LOG}/", znodes.SNAPSHOTS)):
        return False
    try:
        return bool(await names_below(store, znodes.BROKER_IDS))
    except StoreError:  # the next attempt shows the store's fault
        return True
