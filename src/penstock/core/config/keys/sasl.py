"""The broker keys for logins. Facts are Kafka 4.3's; the words are ours.

Most of them can be given for one listener (`listener.name.NAME.KEY`), and those that concern a mechanism for one
mechanism of a listener (`listener.name.NAME.MECHANISM.KEY`, in lower case).
"""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Range, UpdateMode
from penstock.core.jaas import JaasText

_LOW = Importance.LOW
_PER_BROKER = UpdateMode.PER_BROKER
_MECHANISMS = OneOf(("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"))

SASL_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "sasl.enabled.mechanisms",
        ConfigKind.LIST,
        ("GSSAPI",),
        "How clients may log in on listeners with SASL.",
        rule=_MECHANISMS,
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        ConfigKind.STRING,
        "GSSAPI",
        "How this broker logs in at others, where the listener of the brokers has SASL.",
        rule=_MECHANISMS,
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "sasl.jaas.config",
        ConfigKind.PASSWORD,
        None,
        "The login module of a mechanism with its options, as in Kafka's files: accounts of PLAIN (`user_NAME`), this "
        "broker's own user and password, a keytab. Give it as `listener.name.NAME.MECHANISM.sasl.jaas.config`. Only "
        "Kafka's own login modules are accepted.",
        rule=JaasText(),
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        ConfigKind.INT,
        524_288,
        "The largest request before a client has logged in. A larger one closes the connection.",
    ),
    ConfigKey(
        "penstock.sasl.login.timeout.ms",
        ConfigKind.INT,
        30_000,
        "How long a client may take from its connection to the end of its login, the TLS handshake included; then the "
        "connection is closed. Clients give up after 30 s or less by themselves.",
        rule=Range(1_000),
        importance=_LOW,
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        ConfigKind.LONG,
        0,
        "After this time a client has to log in again on its connection (KIP-368), or is cut off; 0 is never. Give it "
        "for one mechanism as `listener.name.NAME.MECHANISM.connections.max.reauth.ms`.",
    ),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        ConfigKind.INT,
        100,
        "How long a refused login waits for its answer, so that nobody can guess passwords quickly.",
        rule=Range(0),
        importance=_LOW,
    ),
    ConfigKey(
        "sasl.kerberos.service.name",
        ConfigKind.STRING,
        None,
        "The name of the brokers' service in Kerberos, mostly `kafka`.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        ConfigKind.LIST,
        ("DEFAULT",),
        "How a Kerberos principal becomes a user's name: `DEFAULT`, or `RULE:[n:format](expression)s/from/to/g/L`; "
        "the first that applies wins.",
        mode=_PER_BROKER,
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        ConfigKind.STRING,
        None,
        "Where the issuer's keys for OAUTHBEARER are, with https, http or file. The URL has to stand in "
        "`penstock.sasl.oauthbearer.allowed.urls`, a file in `penstock.sasl.oauthbearer.allowed.files`.",
    ),
    ConfigKey(
        "penstock.sasl.oauthbearer.allowed.urls",
        ConfigKind.LIST,
        (),
        "The URLs that `sasl.oauthbearer.jwks.endpoint.url` may name. Kafka has a property of the JVM for it.",
    ),
    ConfigKey(
        "penstock.sasl.oauthbearer.allowed.files",
        ConfigKind.LIST,
        (),
        "The files, or directories of files, that `sasl.oauthbearer.jwks.endpoint.url` may name.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        ConfigKind.LONG,
        3_600_000,
        "How often the issuer's keys are read again.",
        importance=_LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.issuer",
        ConfigKind.STRING,
        None,
        "The issuer (`iss`) that tokens have to name; not set: any.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.audience",
        ConfigKind.LIST,
        (),
        "The audiences (`aud`) of which tokens have to name one; not set: any.",
        importance=Importance.HIGH,
    ),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds",
        ConfigKind.INT,
        30,
        "By how much the issuer's clock may differ.",
        importance=_LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.sub.claim.name",
        ConfigKind.STRING,
        "sub",
        "The claim that names the user.",
        importance=_LOW,
    ),
    ConfigKey(
        "sasl.oauthbearer.scope.claim.name",
        ConfigKind.STRING,
        "scope",
        "The claim with the scopes of a token. A token needs none; nothing is decided by them.",
        importance=_LOW,
    ),
    ConfigKey(
        "delegation.token.secret.key",
        ConfigKind.PASSWORD,
        None,
        "The secret that delegation tokens are made with, the same on every broker. Not set: there are no tokens.",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        ConfigKind.LONG,
        604_800_000,
        "How long a delegation token lives at most, however often it is renewed.",
        rule=Range(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        ConfigKind.LONG,
        86_400_000,
        "How long a delegation token lives until it has to be renewed.",
        rule=Range(1),
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        ConfigKind.LONG,
        3_600_000,
        "How often expired delegation tokens are removed.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.delegation.tokens.max",
        ConfigKind.INT,
        10_000,
        "How many delegation tokens the cluster has at most. Further ones are refused (POLICY_VIOLATION). All are in "
        "the metadata of every broker.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.delegation.tokens.max.per.owner",
        ConfigKind.INT,
        1_000,
        "The same for one owner. Lower than the number of the cluster, so that no user takes the room of all.",
        rule=Range(1),
        importance=_LOW,
    ),
)
