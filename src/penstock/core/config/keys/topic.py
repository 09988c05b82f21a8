"""The topic keys. Names, defaults, ranges and broker synonyms are Kafka 4.3's; the words are ours."""

from __future__ import annotations

from penstock.core.config.keys.authorization import TAGS
from penstock.core.config.keys.schemas import SCHEMA_TOPIC_KEYS
from penstock.core.config.keys.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS
from penstock.core.config.types import (
    ConfigKey,
    ConfigKind,
    NeutralOnly,
    OneOf,
    Range,
    RangeOr,
    Synonym,
    ThrottledReplicas,
)

LONG_MAX = 2**63 - 1
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000

COMPRESSION_TYPES = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
CLEANUP_POLICIES = OneOf(("compact", "delete"))
TIMESTAMP_TYPES = OneOf(("CreateTime", "LogAppendTime"))
GZIP_LEVELS = RangeOr(1, 9, -1)
LZ4_LEVELS = Range(1, 17)
ZSTD_LEVELS = Range(-131072, 22)
_NO_TIERS = "tiered storage is not served"

TOPIC_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "cleanup.policy",
        ConfigKind.LIST,
        ("delete",),
        "What happens to old segments: `delete` removes them by retention time and size, `compact` keeps the last "
        "record of every key; both may be given. Empty keeps everything.",
        rule=CLEANUP_POLICIES,
        synonyms=(Synonym("log.cleanup.policy"),),
    ),
    ConfigKey(
        "compression.gzip.level",
        ConfigKind.INT,
        -1,
        "Level used when `compression.type` is gzip; -1 is the library's default.",
        rule=GZIP_LEVELS,
        synonyms=(Synonym("compression.gzip.level"),),
    ),
    ConfigKey(
        "compression.lz4.level",
        ConfigKind.INT,
        9,
        "Level used when `compression.type` is lz4.",
        rule=LZ4_LEVELS,
        synonyms=(Synonym("compression.lz4.level"),),
    ),
    ConfigKey(
        "compression.type",
        ConfigKind.STRING,
        "producer",
        "How batches are stored. `producer` keeps whatever the producer sent and is the fastest; any other value makes "
        "the broker recompress batches that come in another form.",
        rule=COMPRESSION_TYPES,
        synonyms=(Synonym("compression.type"),),
    ),
    ConfigKey(
        "compression.zstd.level",
        ConfigKind.INT,
        3,
        "Level used when `compression.type` is zstd.",
        rule=ZSTD_LEVELS,
        synonyms=(Synonym("compression.zstd.level"),),
    ),
    ConfigKey(
        "delete.retention.ms",
        ConfigKind.LONG,
        86_400_000,
        "How long a compacted topic keeps a tombstone, so that a consumer that reads from the beginning within this "
        "time sees every deletion.",
        rule=Range(0),
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
    ),
    ConfigKey(
        "file.delete.delay.ms",
        ConfigKind.LONG,
        60_000,
        "How long the files of a deleted segment or topic stay on disk under a `.deleted` or `-delete` name.",
        rule=Range(0),
        synonyms=(Synonym("log.segment.delete.delay.ms"),),
    ),
    ConfigKey(
        "flush.messages",
        ConfigKind.LONG,
        LONG_MAX,
        "Force an fsync after this many records. 1 makes every acknowledged batch survive a power loss; the writes of "
        "many producers share one fsync. The default leaves it to the operating system and to replication.",
        rule=Range(1),
        synonyms=(Synonym("log.flush.interval.messages"),),
    ),
    ConfigKey(
        "flush.ms",
        ConfigKind.LONG,
        LONG_MAX,
        "Force an fsync when data has been unflushed for this long.",
        rule=Range(0),
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    ),
    ConfigKey(
        FOLLOWER_REPLICAS,
        ConfigKind.LIST,
        (),
        "Replicas whose fetching from the leader is throttled.",
        rule=ThrottledReplicas(),
    ),
    ConfigKey(
        "index.interval.bytes",
        ConfigKind.INT,
        4096,
        "Bytes of records between two entries of the offset index. Smaller finds an offset sooner and makes the index "
        "larger.",
        rule=Range(0),
        synonyms=(Synonym("log.index.interval.bytes"),),
    ),
    ConfigKey(
        LEADER_REPLICAS,
        ConfigKind.LIST,
        (),
        "Replicas to which the leader's sending is throttled.",
        rule=ThrottledReplicas(),
    ),
    ConfigKey(
        "local.retention.bytes",
        ConfigKind.LONG,
        -2,
        "What a tiered topic keeps on the broker's own disks; -2 is the same as `retention.bytes`. Tiered storage is "
        "not served.",
        rule=NeutralOnly(-2, _NO_TIERS, low=-2),
    ),
    ConfigKey(
        "local.retention.ms",
        ConfigKind.LONG,
        -2,
        "How long a tiered topic keeps segments on the broker's own disks; -2 is the same as `retention.ms`. Tiered "
        "storage is not served.",
        rule=NeutralOnly(-2, _NO_TIERS, low=-2),
    ),
    ConfigKey(
        "max.compaction.lag.ms",
        ConfigKind.LONG,
        LONG_MAX,
        "The longest that a record of a compacted topic may stay uncompacted.",
        rule=Range(1),
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
    ),
    ConfigKey(
        "max.message.bytes",
        ConfigKind.INT,
        1_048_588,
        "The largest batch accepted, compressed, with its header.",
        rule=Range(0),
        synonyms=(Synonym("message.max.bytes"),),
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        ConfigKind.LONG,
        3_600_000,
        "How far a record's timestamp may lie in the future of the broker's clock. Not used with LogAppendTime.",
        rule=Range(0),
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        ConfigKind.LONG,
        LONG_MAX,
        "How far a record's timestamp may lie in the past of the broker's clock. Not used with LogAppendTime.",
        rule=Range(0),
        synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
    ),
    ConfigKey(
        "message.timestamp.type",
        ConfigKind.STRING,
        "CreateTime",
        "Whether a record keeps the timestamp its producer gave it or gets that of the append.",
        rule=TIMESTAMP_TYPES,
        synonyms=(Synonym("log.message.timestamp.type"),),
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        ConfigKind.DOUBLE,
        0.5,
        "The share of uncompacted bytes in a log from which on it is compacted.",
        rule=Range(0, 1),
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        ConfigKind.LONG,
        0,
        "The shortest time that a record of a compacted topic stays uncompacted.",
        rule=Range(0),
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
    ),
    ConfigKey(
        "min.insync.replicas",
        ConfigKind.INT,
        1,
        "How many replicas must be in sync for a produce with acks=all to be accepted.",
        rule=Range(1),
        synonyms=(Synonym("min.insync.replicas"),),
    ),
    ConfigKey(
        "preallocate",
        ConfigKind.BOOLEAN,
        False,
        "Whether a new segment file gets its full size at once.",
        synonyms=(Synonym("log.preallocate"),),
    ),
    ConfigKey(
        "remote.log.copy.disable",
        ConfigKind.BOOLEAN,
        False,
        "Whether a tiered topic stops copying segments to remote storage. Tiered storage is not served.",
        rule=NeutralOnly(False, _NO_TIERS),
    ),
    ConfigKey(
        "remote.log.delete.on.disable",
        ConfigKind.BOOLEAN,
        False,
        "Whether remote segments are deleted when a topic's tiering is turned off. Tiered storage is not served.",
        rule=NeutralOnly(False, _NO_TIERS),
    ),
    ConfigKey(
        "remote.storage.enable",
        ConfigKind.BOOLEAN,
        False,
        "Whether closed segments of the topic are moved to remote storage. Tiered storage is not served.",
        rule=NeutralOnly(False, _NO_TIERS),
    ),
    ConfigKey(
        "retention.bytes",
        ConfigKind.LONG,
        -1,
        "The size per partition from which on its oldest segments are deleted; -1 is no limit.",
        synonyms=(Synonym("log.retention.bytes"),),
    ),
    ConfigKey(
        "retention.ms",
        ConfigKind.LONG,
        604_800_000,
        "The age from which on segments are deleted; -1 keeps them for ever.",
        rule=Range(-1),
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    ),
    ConfigKey(
        "segment.bytes",
        ConfigKind.INT,
        1_073_741_824,
        "The size of a segment file. Retention and compaction work on whole segments.",
        rule=Range(1_048_576),
        synonyms=(Synonym("log.segment.bytes"),),
    ),
    ConfigKey(
        "segment.index.bytes",
        ConfigKind.INT,
        10_485_760,
        "The size of an index file; a full index begins a new segment (see `penstock.segment.least.ms`).",
        rule=Range(4),
        synonyms=(Synonym("log.index.size.max.bytes"),),
    ),
    ConfigKey(
        "segment.jitter.ms",
        ConfigKind.LONG,
        0,
        "The most that is taken at random from `segment.ms`, so that many partitions do not roll at the same moment.",
        rule=Range(0),
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    ),
    ConfigKey(
        "segment.ms",
        ConfigKind.LONG,
        604_800_000,
        "The age at which a segment that is not full is closed all the same, so that retention can delete it. Below "
        "`penstock.segment.least.ms` that counts.",
        rule=Range(1),
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        ConfigKind.BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader when no other is left, at the price of lost records.",
        synonyms=(Synonym("unclean.leader.election.enable"),),
    ),
    TAGS,  # ours, and in the same place
    *SCHEMA_TOPIC_KEYS,  # Confluent's
)
