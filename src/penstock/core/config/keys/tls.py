"""The broker keys for TLS. Facts are Kafka 4.3's; the words are ours.

Each of them holds for every listener, and as `listener.name.<listener>.<key>` for one.
"""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Pattern, UpdateMode

_LOW = Importance.LOW
_PER_BROKER = UpdateMode.PER_BROKER
_STORE_TYPE = Pattern(r"(?i:JKS|PKCS12|PEM)", "JKS, PKCS12 or PEM")

TLS_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "ssl.keystore.location",
        ConfigKind.STRING,
        None,
        "The file with the broker's private key and its certificates, the broker's own first. The broker reads the "
        "file again when it changes; new connections get the new certificate.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.type",
        ConfigKind.STRING,
        "JKS",
        "The format of `ssl.keystore.location`: PEM or PKCS12. With JKS, Kafka's default, the contents of the file "
        "decide, because Java writes PKCS12 under that name; a real JKS file is refused with the command that converts "
        "it.",
        rule=_STORE_TYPE,
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.password",
        ConfigKind.PASSWORD,
        None,
        "The password of a PKCS12 file. A PEM file has none, but its key may have `ssl.key.password`.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.key",
        ConfigKind.PASSWORD,
        None,
        "The private key itself, as PEM (PKCS 8), instead of a file. Needs `ssl.keystore.certificate.chain`.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        ConfigKind.PASSWORD,
        None,
        "The certificates that go with `ssl.keystore.key`, as PEM, the broker's own first.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.key.password",
        ConfigKind.PASSWORD,
        None,
        "The password of the private key in a PEM file or in `ssl.keystore.key`, if the key is encrypted.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.location",
        ConfigKind.STRING,
        None,
        "The file with the certificates of the authorities that clients' and other brokers' certificates are checked "
        "against. The broker reads the file again when it changes.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.type",
        ConfigKind.STRING,
        "JKS",
        "The format of `ssl.truststore.location`; see `ssl.keystore.type`.",
        rule=_STORE_TYPE,
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.password",
        ConfigKind.PASSWORD,
        None,
        "The password of a PKCS12 file.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.truststore.certificates",
        ConfigKind.PASSWORD,
        None,
        "The certificates of the trusted authorities themselves, as PEM, instead of a file.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "penstock.ssl.crl.location",
        ConfigKind.STRING,
        None,
        "A PEM file with revocation lists, one for every authority that signs certificates of the other side. A "
        "certificate on its authority's list is refused, and so is a certificate whose authority has no list. The "
        "broker reads the file again when it changes. Kafka has no such key.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.client.auth",
        ConfigKind.STRING,
        "none",
        "Whether clients show a certificate: `required`, `requested` (a client without one is User:ANONYMOUS) or "
        "`none`.",
        rule=OneOf(("required", "requested", "none")),
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.enabled.protocols",
        ConfigKind.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken. Older ones than these two are not available.",
        rule=OneOf(("TLSv1.2", "TLSv1.3")),
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.cipher.suites",
        ConfigKind.LIST,
        (),
        "The cipher suites that are allowed, by their IANA names; empty allows every suite with forward secrecy and "
        "authenticated encryption. Python cannot choose among the three suites of TLS 1.3: name all of them, or none "
        "to do without TLS 1.3.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.principal.mapping.rules",
        ConfigKind.STRING,
        "DEFAULT",
        "How the name in a client's certificate becomes a user: `RULE:pattern/replacement/[LU]` and `DEFAULT` (the "
        "whole name), separated by commas. The first rule whose pattern matches the whole name wins; a client that no "
        "rule matches is refused.",
        importance=_LOW,
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        ConfigKind.STRING,
        "https",
        "`https`: as a client of other brokers, this broker checks that their certificates name the host it asked for. "
        "Empty: it does not.",
        rule=Pattern(r"(?i:https)", "https, or empty"),
        importance=_LOW,
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "ssl.allow.dn.changes",
        ConfigKind.BOOLEAN,
        False,
        "Whether a certificate that is loaded while the broker runs may have another distinguished name than before.",
        importance=_LOW,
    ),
    ConfigKey(
        "ssl.allow.san.changes",
        ConfigKind.BOOLEAN,
        False,
        "Whether a certificate that is loaded while the broker runs may lack a host name or an address that the one "
        "before had.",
        importance=_LOW,
    ),
)
