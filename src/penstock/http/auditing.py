"""The audit trail of an HTTP service: a log line for each event, by the logger `penstock.audit`.

A service keeps no trail of its own, with numbers and a chain, as a broker does: the operator's log collection decides
where its lines go, and for how long they are kept. With `penstock.log.format=json` each line is a JSON object. The
broker's trail has the service's operations there. Changes have a line each. Refusals, which strangers can cause without
end, are limited in rate, and the next line has the number of suppressed lines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from penstock.core.logs import CLIENT_BURST, Limiter, RateLimitedLog
from penstock.security.audit.cloud_events import bounded
from penstock.security.audit.events import AuditEvent, AuditKind

logger = logging.getLogger("penstock.audit")

# The other kinds belong to brokers alone.
_KINDS = frozenset({AuditKind.LOGIN, AuditKind.DENIAL, AuditKind.CHANGE})


class LoggedAudit:
    refuses: Final = False

    def __init__(self, kinds: Iterable[str], monotonic_ms: Callable[[], int]) -> None:
        """Words of `penstock.audit.kinds`."""
        self._limited = RateLimitedLog(logger, Limiter(burst=CLIENT_BURST), monotonic_ms)
        self.kinds = frozenset(AuditKind(each) for each in kinds) & _KINDS

    def record(self, event: AuditEvent) -> None:
        if event.kind not in self.kinds:
            return
        shown = bounded(event)
        fields: dict[str, object] = {
            "kind": event.kind.value,
            "what": shown.what,
            "allowed": shown.is_allowed,
            "principal": shown.principal,
            "address": shown.address,
            "resource": shown.resource,
            "operation": shown.operation,
            "rule": shown.rule,
        }
        details = {f"detail_{name}": value for name, value in shown.details.items()}
        given = {name: each for name, each in fields.items() if each != ""} | details
        if event.is_allowed:
            logger.info("done", extra=given)
        else:
            self._limited.once_per(event.kind.name, logging.WARNING, "refused", given)
