"""The broker keys of `/metrics` and `/healthz` beyond the address: encryption and logins."""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance

_LOW = Importance.LOW

MONITORING_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "penstock.metrics.ssl.certificate",
        ConfigKind.STRING,
        "",
        "A PEM file with the certificate of `penstock.metrics.listen` and its chain; empty serves plain HTTP.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.metrics.ssl.key",
        ConfigKind.STRING,
        "",
        "A PEM file with the private key; empty where the file of the certificate has it.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.metrics.ssl.client.ca",
        ConfigKind.STRING,
        "",
        "A PEM file with authorities. Clients need a certificate of one of them, and that is their login.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.metrics.users",
        ConfigKind.PASSWORD,
        "",
        "Who may look at the metrics by a password (HTTP Basic), as NAME:PASSWORD,NAME:PASSWORD.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.metrics.tokens",
        ConfigKind.PASSWORD,
        "",
        "Who may look at the metrics by a token (HTTP Bearer), as NAME:TOKEN,NAME:TOKEN.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.metrics.insecure",
        ConfigKind.BOOLEAN,
        False,
        "Whether the metrics may be open to everybody on an address other than loopback. Otherwise such an address "
        "needs users, tokens or certificates.",
        importance=_LOW,
    ),
)
