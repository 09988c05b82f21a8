"""The broker keys for groups, offsets, transactions and replication. Facts are Kafka 4.3's; the words are ours."""

from __future__ import annotations

from penstock.core.config.keys.throttles import DIRECTORY_RATE, FOLLOWER_RATE, LEADER_RATE
from penstock.core.config.keys.topic import LONG_MAX
from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Range, UpdateMode

_HIGH = Importance.HIGH
_LOW = Importance.LOW
_DYNAMIC = UpdateMode.CLUSTER_WIDE
_COORDINATOR_SEGMENT_BYTES = 16 * 1024 * 1024

GROUP_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "group.min.session.timeout.ms", ConfigKind.INT, 6000, "The shortest session timeout a member may ask for."
    ),
    ConfigKey(
        "group.max.session.timeout.ms", ConfigKind.INT, 1_800_000, "The longest session timeout a member may ask for."
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        ConfigKind.INT,
        3000,
        "How long an empty group waits for further members before its first rebalance. 0 suits tests.",
    ),
    ConfigKey(
        "group.max.size",
        ConfigKind.INT,
        2**31 - 1,
        "How many members a group may have.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.group.max.metadata.bytes",
        ConfigKind.INT,
        16_777_216,
        "How many bytes the members of a group may offer together when they join (names, subscriptions, what assignors "
        "add), and how many a leader may assign. More is refused (GROUP_MAX_SIZE_REACHED), whatever the protocol. The "
        "record of a classic group also has to fit into a message of `__consumer_offsets`, 1 MB by default.",
        rule=Range(1024),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.group.pending.joins.max",
        ConfigKind.INT,
        10_000,
        "How many members may have joined groups of this broker without having been heard of again. Each counts until "
        "it joins with the id that it was given, asks for its assignment, or sends a heartbeat. Where there are more, "
        "or where they take more than 8 KiB for each that there may be, the sessions of the oldest of them end. A "
        "client that comes back later joins anew. Other members are never touched.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.group.pending.joins.max.per.group",
        ConfigKind.INT,
        5_000,
        "The same for one group. Lower than the number for the broker, so that no group displaces others.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.group.pending.joins.max.per.client",
        ConfigKind.INT,
        2_500,
        "The same for one user at one address. Lower than the number for a group, so that no client displaces others.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "group.consumer.session.timeout.ms",
        ConfigKind.INT,
        45_000,
        "How long a member of a KIP-848 group may be silent. A group's own `consumer.session.timeout.ms` comes first.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.min.session.timeout.ms",
        ConfigKind.INT,
        45_000,
        "The shortest session timeout that a KIP-848 group may be given.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.max.session.timeout.ms",
        ConfigKind.INT,
        60_000,
        "The longest session timeout that a KIP-848 group may be given.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms",
        ConfigKind.INT,
        5000,
        "How often members of KIP-848 groups are told to send heartbeats. A group's own "
        "`consumer.heartbeat.interval.ms` comes first.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.min.heartbeat.interval.ms",
        ConfigKind.INT,
        5000,
        "The shortest heartbeat interval that a KIP-848 group may be given.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.max.heartbeat.interval.ms",
        ConfigKind.INT,
        15_000,
        "The longest heartbeat interval that a KIP-848 group may be given.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.max.size",
        ConfigKind.INT,
        2**31 - 1,
        "How many members a KIP-848 group may have.",
        rule=Range(1),
    ),
    ConfigKey(
        "group.consumer.assignors",
        ConfigKind.LIST,
        ("uniform", "range"),
        "The assignors that members of KIP-848 groups may choose from; the first is the default.",
        rule=OneOf(("uniform", "range")),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        ConfigKind.STRING,
        "bidirectional",
        "Whether a group with members may change from the classic protocol to KIP-848 (upgrade), back (downgrade), or "
        "both.",
        rule=OneOf(("bidirectional", "upgrade", "downgrade", "disabled")),
    ),
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        ConfigKind.INT,
        1000,
        "At least this long between two assignments of a KIP-848 group, so that many members that join at once are "
        "assigned once. A group's own `consumer.assignment.interval.ms` comes first.",
        rule=Range(0),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        "group.consumer.min.assignment.interval.ms",
        ConfigKind.INT,
        0,
        "The shortest assignment interval that a KIP-848 group may be given.",
        rule=Range(0),
    ),
    ConfigKey(
        "group.consumer.max.assignment.interval.ms",
        ConfigKind.INT,
        15_000,
        "The longest assignment interval that a KIP-848 group may be given.",
        rule=Range(0),
    ),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        ConfigKind.INT,
        600_000,
        "How often the topics that regular expressions of KIP-848 groups stand for are looked up at the latest.",
        rule=Range(10_000),
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        ConfigKind.INT,
        4096,
        "The largest metadata text of a committed offset.",
        importance=_HIGH,
    ),
    ConfigKey(
        "offsets.commit.timeout.ms",
        ConfigKind.INT,
        5000,
        "How long an offset commit may wait for its replicas.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        ConfigKind.INT,
        10_080,
        "How long committed offsets are kept after their group has become empty.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        ConfigKind.LONG,
        600_000,
        "How often expired offsets are looked for.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        ConfigKind.INT,
        50,
        "Partitions of `__consumer_offsets`. Not to be changed once the topic exists.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        ConfigKind.SHORT,
        3,
        "Replicas of `__consumer_offsets`. With fewer brokers than that, there are as many replicas as brokers; Kafka "
        "would refuse to create the topic.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        ConfigKind.INT,
        _COORDINATOR_SEGMENT_BYTES,
        "Segment size of `__consumer_offsets` when the topic is created. A coordinator that takes a partition over "
        "reads all of it, and compaction leaves the last segment alone. 16 MiB load in half a second where groups "
        "commit the same offsets again and again, and in 1.4 s where each offset was committed once (11 to 12 MB/s). "
        "Kafka's default is 100 MiB.",
        rule=Range(1),
        importance=_HIGH,
    ),
)

TRANSACTION_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "transaction.state.log.num.partitions",
        ConfigKind.INT,
        50,
        "Partitions of `__transaction_state`. Not to be changed once the topic exists.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        ConfigKind.SHORT,
        3,
        "Replicas of `__transaction_state`; as many as brokers where there are fewer.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        ConfigKind.INT,
        2,
        "`min.insync.replicas` of `__transaction_state`, at most its number of replicas.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        ConfigKind.INT,
        _COORDINATOR_SEGMENT_BYTES,
        "Segment size of `__transaction_state` when the topic is created. Kafka's default is 100 MiB; see "
        "`offsets.topic.segment.bytes`.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "transaction.max.timeout.ms",
        ConfigKind.INT,
        900_000,
        "The longest transaction timeout a producer may ask for.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        ConfigKind.INT,
        604_800_000,
        "How long an idle transactional id is remembered.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigKind.INT,
        3_600_000,
        "How often expired transactional ids are looked for.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        ConfigKind.BOOLEAN,
        True,
        "Whether a transactional write is refused unless its transaction is known to be open (KIP-890).",
        importance=_LOW,
        mode=_DYNAMIC,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.ms",
        ConfigKind.INT,
        20,
        "How long a write that begins a transaction waits, while the producer's former one is being ended, before it "
        "is tried again.",
        rule=Range(1),
        importance=_HIGH,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.max.ms",
        ConfigKind.INT,
        100,
        "For how long such a write is tried again before the producer is told to do that itself.",
        rule=Range(0),
        importance=_HIGH,
    ),
)

# Kafka's names: configurations that were written for Kafka work here.
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

REPLICATION_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "replica.selector.class",
        ConfigKind.STRING,
        None,
        "From which replica consumers read: the leader, or the one in the rack that the consumer names (KIP-392). "
        "Without it, the leader.",
        rule=OneOf((LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        ConfigKind.LONG,
        30_000,
        "A follower that has not caught up for this long leaves the in-sync set.",
        importance=_HIGH,
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        ConfigKind.INT,
        1_048_576,
        "The most a follower fetches per partition.",
        rule=Range(0),
    ),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        ConfigKind.INT,
        10_485_760,
        "The most a follower fetches at once.",
        rule=Range(0),
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        ConfigKind.INT,
        500,
        "How long a follower's fetch waits for data.",
        importance=_HIGH,
    ),
    ConfigKey("replica.fetch.min.bytes", ConfigKind.INT, 1, "What a follower's fetch waits for.", importance=_HIGH),
    ConfigKey(
        "replica.fetch.backoff.ms",
        ConfigKind.INT,
        1000,
        "How long a follower waits after a failed fetch.",
        rule=Range(0),
    ),
    ConfigKey(
        "replica.socket.timeout.ms",
        ConfigKind.INT,
        30_000,
        "How long a follower waits for an answer.",
        importance=_HIGH,
    ),
    ConfigKey(
        "replica.socket.receive.buffer.bytes",
        ConfigKind.INT,
        65_536,
        "SO_RCVBUF of a follower's connections.",
        importance=_HIGH,
    ),
    ConfigKey(
        "num.replica.fetchers",
        ConfigKind.INT,
        1,
        "Connections a follower opens to each leader.",
        rule=Range(1),
        importance=_HIGH,
        mode=_DYNAMIC,
    ),
)

THROTTLE_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        LEADER_RATE,
        ConfigKind.LONG,
        LONG_MAX,
        "Bytes per second that a leader sends to replicas that are not in sync, of the partitions that the topics' "
        "`leader.replication.throttled.replicas` name.",
        rule=Range(0),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        FOLLOWER_RATE,
        ConfigKind.LONG,
        LONG_MAX,
        "Bytes per second that a follower fetches while it is not in sync, of the partitions that the topics' "
        "`follower.replication.throttled.replicas` name.",
        rule=Range(0),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        DIRECTORY_RATE,
        ConfigKind.LONG,
        LONG_MAX,
        "Bytes per second that move between the data directories of a broker.",
        rule=Range(0),
        mode=_DYNAMIC,
    ),
    ConfigKey(
        "replication.quota.window.num",
        ConfigKind.INT,
        11,
        "Windows in which the rate of throttled replication is measured.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "replication.quota.window.size.seconds",
        ConfigKind.INT,
        1,
        "How long each of these windows is.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        ConfigKind.INT,
        11,
        "Windows in which the rate of moves between data directories is measured.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds",
        ConfigKind.INT,
        1,
        "How long each of these windows is.",
        rule=Range(1),
        importance=_LOW,
    ),
)
