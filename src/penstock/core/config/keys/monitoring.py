"""The broker keys of `/metrics` and `/healthz` beyond the address: encryption and logins."""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf

_LOW = Importance.LOW

MONITORING_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "penstock.metrics.security.protocol",
        ConfigKind.STRING,
        "PLAINTEXT",
        "Whether `penstock.metrics.listen` serves HTTP (PLAINTEXT) or HTTPS (SSL), with the `ssl.*` keys of the broker "
        "or its own, as `listener.name.metrics.ssl.keystore.location`. With `ssl.client.auth=required` the certificate "
        "of a client is its login.",
        rule=OneOf(("PLAINTEXT", "SSL")),
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
        "penstock.metrics.cluster.users",
        ConfigKind.BOOLEAN,
        False,
        "Whether users of the cluster (SCRAM, as `penstock users add` makes them) may look at the metrics by their "
        "passwords (HTTP Basic). Where there is an authorizer they need the right to describe the cluster.",
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
