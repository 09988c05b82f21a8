"""Cipher suites: IANA's names, which Kafka's `ssl.cipher.suites` has, as OpenSSL's.

Only suites with forward secrecy and authenticated encryption are here. An operator who names another one, out of habit
or from an old file, gets an error instead of a weak connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.config.types import ConfigError

KEY = "ssl.cipher.suites"

TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
TLS_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
}


class Suites(NamedTuple):
    openssl: str  # for SSLContext.set_ciphers; empty where TLS 1.2 is not spoken
    has_tls_1_3: bool


def choose_suites(names: Sequence[str]) -> Suites:
    """All suites where `names` is empty. Raises ConfigError for a suite that is unknown or weak."""
    if not names:
        return Suites(":".join(TLS_1_2.values()), has_tls_1_3=True)
    unknown = [name for name in names if name not in TLS_1_2 and name not in TLS_1_3]
    if unknown:
        served = ", ".join((*TLS_1_3, *TLS_1_2))
        raise ConfigError.of_value(KEY, unknown[0], f"Unknown, or too weak to be served. There are: {served}")
    newer = [name for name in names if name in TLS_1_3]
    if newer and len(newer) < len(TLS_1_3):
        reason = f"Python cannot choose among the suites of TLS 1.3. Name all of {', '.join(TLS_1_3)}, or none of them"
        raise ConfigError.of_value(KEY, ",".join(newer), reason)
    return Suites(":".join(TLS_1_2[name] for name in names if name in TLS_1_2), bool(newer))
