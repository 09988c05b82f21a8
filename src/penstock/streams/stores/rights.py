"""Checks the right to read a store: a caller needs Read on its changelog topic, and the brokers decide.

Where the brokers know the callers (penstock.http.broker.logins) the server asks them in the caller's name, and their
answer counts for a few seconds. Elsewhere a caller that the listener lets in reads what the server itself may read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from penstock.client.brokers import Brokers
from penstock.core.bounded_cache import BoundedCache
from penstock.http.callers.clients import CallerClients
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.acls.types import Operation
from penstock.security.audit.events import AuditEvent, AuditKind, Auditor
from penstock.streams.stores.errors import StoreError

# A right that is taken away counts for so long.
_KEPT_S: Final = 5.0
# Callers times stores; an entry takes some 300 bytes.
_MOST_KEPT: Final = 10_000


class StoreRights:
    """Without `clients` every caller may read everything."""

    def __init__(self, clients: CallerClients[Brokers] | None, auditor: Auditor) -> None:
        self._clients = clients
        self._auditor = auditor
        self._kept: BoundedCache[tuple[str, bytes, str], bool] = BoundedCache(
            _MOST_KEPT, keep_s=_KEPT_S, clock=lambda: asyncio.get_running_loop().time()
        )

    async def check(self, request: Request, topic: str) -> None:
        """Checks before it looks for the store, so that a caller without the right does not learn whether the store
        exists. Raises StoreError."""
        if await self.readable(request, [topic]):
            return
        if AuditKind.DENIAL in self._auditor.kinds:
            self._auditor.record(
                AuditEvent(
                    AuditKind.DENIAL,
                    "StoreQuery",
                    is_allowed=False,
                    principal=request.state.principal or "",
                    address=request.client.host if request.client else "",
                    resource=f"Topic:{topic}",
                    operation="Read",
                    rule="the brokers do not allow it",
                )
            )
        raise StoreError(403, f"not allowed to read the topic {topic}", "Ask for the right Read on this topic.")

    async def readable(self, request: Request, topics: Sequence[str]) -> set[str]:
        """The topics that the caller may read. Raises OSError, ApiError and what `CallerClients.of` raises."""
        if self._clients is None:
            return set(topics)
        caller = request.state.caller
        who = ("", b"") if caller is None else (caller.principal, caller.key)
        known = {topic: self._kept.get((*who, topic)) for topic in topics}
        asked = [topic for topic, may_read in known.items() if may_read is None]
        if asked:
            brokers = await self._clients.of(request)
            for row in (await brokers.metadata(asked, with_rights=True)).topics:
                may_read = _may_read(row.error_code, row.topic_authorized_operations)
                known[row.name or ""] = may_read
                if row.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # once it is there the answer may be another
                    self._kept.put((*who, row.name or ""), may_read)
        return {topic for topic, may_read in known.items() if may_read}


def _may_read(error_code: int, operations: int) -> bool:
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return True  # it may be described, and there is nothing to read
    if error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return False
    if operations < 0:  # brokers before 2.3 do not send them
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "they are too old to tell")
    return bool(operations & (1 << Operation.READ))
