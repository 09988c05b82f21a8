"""Whether a certificate may take the place of another one while the broker runs: Kafka's rules.

The distinguished name must stay, and no alternative name may go, unless the settings allow it: clients check the names,
and the ACLs of other brokers may name them.
"""

from __future__ import annotations

from penstock.core.config.types import ConfigError
from penstock.security.tls.der import CertificateFacts
from penstock.security.tls.distinguished_names import format_name
from penstock.security.tls.settings import TlsSettings

_KEY = "ssl.keystore.location"


def check_replacement(old: CertificateFacts, new: CertificateFacts, settings: TlsSettings) -> None:
    """Raises ConfigError."""
    if old.subject != new.subject and not settings.allows_dn_changes:
        raise ConfigError(
            f"{_KEY}: the new certificate is for {format_name(new.subject)}, and the one in use for "
            f"{format_name(old.subject)}; ssl.allow.dn.changes=true would allow that",
            key=_KEY,
        )
    if not new.alternative_names >= old.alternative_names and not settings.allows_san_changes:
        raise ConfigError(
            f"{_KEY}: the new certificate lacks a host name or an address (subject alternative name) of the one in "
            "use; ssl.allow.san.changes=true would allow that",
            key=_KEY,
        )
