"""Files that a service reads again when they have changed."""

from __future__ import annotations

from penstock.security.tls.stamps import Stamp, stamp_of

__all__ = ["LOOK_INTERVAL_S", "Stamp", "stamp_of"]

# Short enough for an operator, and rare enough to cost nothing.
LOOK_INTERVAL_S = 5.0
