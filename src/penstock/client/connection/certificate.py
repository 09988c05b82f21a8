"""The certificate that a broker has shown."""

from __future__ import annotations

import contextlib
import datetime


def end_of_certificate(der: bytes | None) -> datetime.datetime | None:
    """Until when it is valid; None for no certificate, and for one that cannot be read."""
    if der is None:
        return None
    from penstock.security.tls.der import DerError, read_certificate

    with contextlib.suppress(DerError):
        return read_certificate(der).valid_until
    return None
