"""The broker keys for ZooKeeper. Facts are Kafka 3.9's, the last that has them; the words are ours."""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Pattern, Range

_HIGH = Importance.HIGH
_LOW = Importance.LOW
_PEM_ONLY = OneOf(("PEM",))

ZOOKEEPER_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "zookeeper.connect",
        ConfigKind.STRING,
        None,
        "The servers of the ZooKeeper that keeps the metadata of a cluster, as HOST:PORT,HOST:PORT, and behind a slash "
        "the node below which everything is kept, as in `zk1:2181,zk2:2181/penstock`; that node is made if it is "
        "missing. Not set: the broker is alone and keeps the metadata in a file of its own. Needs the extra "
        "`penstock[zookeeper]`.",
        rule=Pattern(r"[^,/\s]+(,\s*[^,/\s]+)*(/\S*)?", "HOST:PORT,HOST:PORT/CHROOT"),
        importance=_HIGH,
    ),
    ConfigKey(
        "zookeeper.session.timeout.ms",
        ConfigKind.INT,
        18_000,
        "How long a broker may be silent before ZooKeeper counts it as gone. ZooKeeper has bounds of its own, often at "
        "least 4000, and the broker's log says so when another timeout is given. `penstock zookeeper start` allows "
        "1000 to 60000; with 2000 the registration of a killed broker is gone after about 2 s.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        ConfigKind.INT,
        None,
        "How long a start waits for ZooKeeper. Not set: as long as `zookeeper.session.timeout.ms`.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "zookeeper.max.in.flight.requests",
        ConfigKind.INT,
        100,
        "How many requests to ZooKeeper may be under way at once. Kafka's default is 10, with which the metadata of "
        "10,000 partitions take several seconds to load.",
        rule=Range(1, 200),
        importance=_HIGH,
    ),
    ConfigKey(
        "zookeeper.set.acl",
        ConfigKind.BOOLEAN,
        False,
        "Whether only the user who made a node may change it, and only that user may read nodes with secrets. Needs a "
        "user: `penstock.zookeeper.digest`, SASL, or a certificate. All brokers of a cluster need the same.",
        importance=_HIGH,
    ),
    ConfigKey(
        "penstock.zookeeper.digest",
        ConfigKind.PASSWORD,
        None,
        "USER:PASSWORD for ZooKeeper's `digest` scheme. Kafka has no such key.",
        rule=Pattern(r"[^:\s]+:.+", "USER:PASSWORD"),
    ),
    ConfigKey(
        "penstock.zookeeper.sasl.mechanism",
        ConfigKind.STRING,
        "",
        "How the broker authenticates itself to ZooKeeper by SASL; empty: not at all. Kafka reads this from a JAAS "
        "file. GSSAPI needs the extra penstock[gssapi], and a keytab or the tickets of `kinit`.",
        rule=Pattern(r"DIGEST-MD5|GSSAPI", "DIGEST-MD5 or GSSAPI"),
    ),
    ConfigKey(
        "penstock.zookeeper.sasl.username",
        ConfigKind.STRING,
        "",
        "The user for DIGEST-MD5, the principal for GSSAPI.",
    ),
    ConfigKey("penstock.zookeeper.sasl.password", ConfigKind.PASSWORD, None, "The password for DIGEST-MD5."),
    ConfigKey("penstock.zookeeper.sasl.keytab", ConfigKind.STRING, "", "The keytab of the principal for GSSAPI."),
    ConfigKey(
        "zookeeper.ssl.client.enable",
        ConfigKind.BOOLEAN,
        False,
        "Whether the broker speaks TLS to ZooKeeper. The server needs a `secureClientPort` for that.",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.location",
        ConfigKind.STRING,
        None,
        "A PEM file with the broker's key and certificates, for a ZooKeeper that asks for one. Kafka reads JKS and "
        "PKCS12 here as well; `openssl pkcs12 -in FILE -out FILE.pem` turns such a file into PEM.",
    ),
    ConfigKey("zookeeper.ssl.keystore.password", ConfigKind.PASSWORD, None, "The password of the key, if it has one."),
    ConfigKey("zookeeper.ssl.keystore.type", ConfigKind.STRING, "PEM", "The format of the key file.", rule=_PEM_ONLY),
    ConfigKey(
        "zookeeper.ssl.truststore.location",
        ConfigKind.STRING,
        None,
        "A PEM file with the certificates that ZooKeeper's is checked against, beside those that the system trusts. "
        "Such a file has no password, so `zookeeper.ssl.truststore.password` has no effect.",
    ),
    ConfigKey("zookeeper.ssl.truststore.type", ConfigKind.STRING, "PEM", "The format of the file.", rule=_PEM_ONLY),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        ConfigKind.STRING,
        "HTTPS",
        "`HTTPS` checks that ZooKeeper's certificate names the host that was asked for; empty does not.",
        rule=Pattern(r"(?i:https)", "HTTPS, or empty"),
        importance=_LOW,
    ),
)
