"""The broker keys for identity, listeners, connections and requests. Facts are Kafka 4.3's; the words are ours."""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Pattern, Range, UpdateMode

_HIGH = Importance.HIGH
_LOW = Importance.LOW
_DYNAMIC = UpdateMode.CLUSTER_WIDE
_INT_MAX = 2**31 - 1

IDENTITY_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "node.id",
        ConfigKind.INT,
        1,
        "The number of this broker in its cluster. Kafka demands it; here it is 1 unless given.",
        rule=Range(0),
        importance=_HIGH,
    ),
    ConfigKey(
        "broker.id",
        ConfigKind.INT,
        -1,
        "The older name of `node.id`; when both are given they must agree.",
        importance=_HIGH,
    ),
    ConfigKey(
        "broker.rack", ConfigKind.STRING, None, "The rack or zone of this broker; replicas are spread over racks."
    ),
    ConfigKey(
        "penstock.cluster.id",
        ConfigKind.STRING,
        "",
        "The id to give a cluster when it is created; empty makes one up. An existing cluster keeps its id.",
        rule=Pattern(r"[A-Za-z0-9_-]{1,64}", "letters, digits, - and _"),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.first.users.file",
        ConfigKind.STRING,
        "",
        "A file with the SCRAM credentials that a new cluster begins with, so that somebody can log in: JSON as "
        '`{"admin": {"SCRAM-SHA-256": "salt=...,stored_key=...,server_key=...,iterations=4096"}}`, as `penstock users '
        "add --first-users-file` writes it. A cluster that is there already does not read it.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.metrics.listen",
        ConfigKind.STRING,
        "",
        "HOST:PORT where /metrics and /healthz are served over HTTP; empty serves none.",
        rule=Pattern(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^:\s]*):[0-9]{1,5}", "HOST:PORT"),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.log.format",
        ConfigKind.STRING,
        "text",
        "How the broker's own log lines look: `text` for people, `json` for programs.",
        rule=OneOf(("text", "json")),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.log.level",
        ConfigKind.STRING,
        "info",
        "From which level on the broker's own log lines are written.",
        rule=OneOf(("debug", "info", "warning", "error")),
        importance=_LOW,
    ),
)

LISTENER_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "listeners",
        ConfigKind.LIST,
        ("PLAINTEXT://:9092",),
        "Where the broker listens, as NAME://HOST:PORT. An empty host is every address; port 0 is any free port. Takes "
        "effect at the next start.",
        importance=_HIGH,
    ),
    ConfigKey(
        "advertised.listeners",
        ConfigKind.LIST,
        None,
        "What clients are told to connect to, per listener name; by default the listener's own address, with this "
        "machine's name for an empty host.",
        importance=_HIGH,
    ),
    ConfigKey(
        "listener.security.protocol.map",
        ConfigKind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
        importance=_LOW,
    ),
    ConfigKey(
        "inter.broker.listener.name",
        ConfigKind.STRING,
        None,
        "The listener that brokers use among themselves; by default the one named like "
        "`security.inter.broker.protocol`, or else the first.",
    ),
    ConfigKey(
        "security.inter.broker.protocol",
        ConfigKind.STRING,
        "PLAINTEXT",
        "The security protocol that brokers use among themselves, on the listener of the same name. Give this or "
        "`inter.broker.listener.name`.",
        rule=OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ),
    ConfigKey(
        "controller.listener.names",
        ConfigKind.LIST,
        (),
        "Listeners that Kafka reserves for its KRaft controllers. They are left out of `listeners` here, because the "
        "controller needs none.",
        importance=_HIGH,
    ),
)

CONNECTION_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "socket.send.buffer.bytes",
        ConfigKind.INT,
        102_400,
        "SO_SNDBUF of client connections; -1 leaves it to the operating system.",
        importance=_HIGH,
    ),
    ConfigKey(
        "socket.receive.buffer.bytes",
        ConfigKind.INT,
        102_400,
        "SO_RCVBUF of client connections; -1 leaves it to the operating system.",
        importance=_HIGH,
    ),
    ConfigKey(
        "socket.request.max.bytes",
        ConfigKind.INT,
        104_857_600,
        "The largest request. A larger one closes the connection before any memory is taken for it.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "socket.listen.backlog.size",
        ConfigKind.INT,
        50,
        "How many connections may wait to be accepted.",
        rule=Range(1),
    ),
    ConfigKey(
        "max.connections",
        ConfigKind.INT,
        _INT_MAX,
        "How many connections the broker holds at once; further ones are closed. Unless a number is given, the files "
        "that the process may open but for 1,024, and at least half of them. With `listener.name.NAME.` before it, of "
        "one listener.",
        rule=Range(0),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        "max.connections.per.ip",
        ConfigKind.INT,
        _INT_MAX,
        "How many connections one address may hold at once. Unless a number is given, half of the files that the "
        "process may open, and at most three quarters of the connections that all may hold.",
        rule=Range(0),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        ConfigKind.STRING,
        "",
        "Exceptions from `max.connections.per.ip`, as ADDRESS:COUNT,ADDRESS:COUNT.",
        rule=Pattern(r"\s*[^,]+:[0-9]{1,10}\s*(,\s*[^,]+:[0-9]{1,10}\s*)*", "HOST:COUNT,HOST:COUNT"),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        ConfigKind.LONG,
        600_000,
        "A connection that sends nothing for this long is closed; -1 never closes one.",
    ),
    ConfigKey(
        "queued.max.requests",
        ConfigKind.INT,
        500,
        "How many whole requests may wait over all connections before those that have some are not read.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        ConfigKind.LONG,
        -1,
        "How many bytes of requests may be in memory at once before connections that hold some are not read; -1 is "
        "512 MiB.",
    ),
)

REQUEST_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "fetch.max.bytes",
        ConfigKind.INT,
        57_671_680,
        "The most that one fetch response carries, whatever the client asks for.",
        rule=Range(1024),
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        ConfigKind.INT,
        1000,
        "How many incremental fetch sessions (KIP-227) are kept; clients beyond that send full fetches.",
        rule=Range(0),
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        ConfigKind.INT,
        2000,
        "How many partitions one DescribeTopicPartitions response carries.",
        rule=Range(1),
    ),
    ConfigKey(
        "auto.create.topics.enable",
        ConfigKind.BOOLEAN,
        True,
        "Whether a topic is created when a client first asks for it.",
        importance=_HIGH,
    ),
    ConfigKey(
        "delete.topic.enable",
        ConfigKind.BOOLEAN,
        True,
        "Whether topics can be deleted.",
        importance=_HIGH,
    ),
    ConfigKey(
        "num.partitions",
        ConfigKind.INT,
        1,
        "Partitions of a topic that is created without a number.",
        rule=Range(1),
    ),
    ConfigKey(
        "default.replication.factor",
        ConfigKind.INT,
        1,
        "Replicas of a topic that is created without a number.",
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        ConfigKind.BOOLEAN,
        True,
        "Whether leadership moves to other brokers before this one stops.",
    ),
    ConfigKey(
        "controlled.shutdown.max.retries",
        ConfigKind.INT,
        3,
        "How often a stopping broker is ready to wait `controlled.shutdown.retry.backoff.ms` until it leads nothing; "
        "then it stops all the same. Kafka up to 3.9 has it.",
        rule=Range(0),
    ),
    ConfigKey(
        "controlled.shutdown.retry.backoff.ms",
        ConfigKind.LONG,
        5_000,
        "See `controlled.shutdown.max.retries`. The broker asks far more often than this. Kafka up to 3.9 has it.",
        rule=Range(0),
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        ConfigKind.BOOLEAN,
        True,
        "Whether the controller gives leadership back to the preferred replicas, now and then.",
        importance=_HIGH,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        ConfigKind.LONG,
        300,
        "How often the controller looks whether a broker lacks more than a tenth of the leaderships that are its own.",
        rule=Range(1),
        importance=_HIGH,
    ),
)
