"""The broker keys for quotas of clients. Facts are Kafka 4.3's; the words are ours."""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, Range, UpdateMode

_LOW = Importance.LOW
_INT_MAX = 2**31 - 1

QUOTA_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "quota.window.num",
        ConfigKind.INT,
        11,
        "Windows in which the rates of clients are measured: whole ones, and the one that is being filled. The quotas "
        "themselves are set with `penstock quotas` or kafka-configs.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "quota.window.size.seconds",
        ConfigKind.INT,
        1,
        "How long each of these windows is.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "controller.quota.window.num",
        ConfigKind.INT,
        11,
        "The same for changes of topics: as many partitions may be made or deleted at once as "
        "`controller_mutation_rate` allows in all windows together.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        ConfigKind.INT,
        1,
        "How long each of these windows is.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.producer.id.quota.window.num",
        ConfigKind.INT,
        11,
        "The same for producer ids: as many new ones may come at once as `producer_ids_rate` allows in all windows "
        "together (KIP-936).",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.producer.id.quota.window.size.seconds",
        ConfigKind.INT,
        600,
        "How long each of these windows is.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.producer.ids.rate",
        ConfigKind.DOUBLE,
        50.0,
        "`producer_ids_rate` of users that have no such quota: how many producer ids a second, new to a partition, "
        "each of them may write with; 330,000 at once. A user above that is delayed. Partitions remember an id for "
        "`producer.id.expiration.ms`, in some 400 bytes. Where nobody logs in, each address counts by itself. 0 is "
        "no bound.",
        rule=Range(0),
    ),
    ConfigKey(
        "max.connection.creation.rate",
        ConfigKind.INT,
        _INT_MAX,
        "New connections per second over all listeners; with `listener.name.NAME.` before it, of one listener. A "
        "connection above it waits for its turn before it is read. The listener that is for brokers alone is exempt "
        "from the rate of the broker.",
        rule=Range(0),
        mode=UpdateMode.CLUSTER_WIDE,
    ),
)
