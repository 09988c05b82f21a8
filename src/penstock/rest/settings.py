"""The settings of the REST proxy, by Confluent's names: one table, from which the reference is written.

`client.*` are settings of the client that speaks to the brokers, by Kafka's names; the prefixes `admin.`, `consumer.`
and `producer.` of security settings mean the same. `schema.registry.*` are of the client of the registry. Keys of
Confluent's proxy without a meaning here are in `IGNORED`. Any other key is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Pattern, Range
from penstock.http.settings import HTTP_KEYS, Settings

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_MIB: Final = 1024 * 1024

_CONNECTION_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "bootstrap.servers",
        ConfigKind.STRING,
        "localhost:9092",
        "Brokers to begin with, as HOST:PORT,HOST:PORT. The others are found through them.",
        importance=_HIGH,
    ),
    ConfigKey(
        "schema.registry.url",
        ConfigKind.STRING,
        "",
        "Where the schema registry is. Without it the formats avro, jsonschema and protobuf are refused.",
        importance=_HIGH,
    ),
    ConfigKey(
        "client.default.api.timeout.ms",
        ConfigKind.INT,
        10_000,
        "How long the proxy tries to have an answer of the brokers to one question of a request. Then the caller gets "
        "503 (50302) where no broker can be reached, and 500 (50003) where one does not answer.",
        rule=Range(1),
    ),
    ConfigKey(
        "producer.delivery.timeout.ms",
        ConfigKind.INT,
        30_000,
        "How long the proxy tries to write a record to a topic that it knows. Then the record has the same codes; it "
        "may be written all the same with 50003.",
        rule=Range(1),
    ),
)

_LISTENER_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "advertised.listeners",
        ConfigKind.STRING,
        "",
        "What callers and other proxies reach this proxy by, as http://HOST:PORT. It stands in `base_uri` of consumer "
        "instances and in the links of v3. Empty: `host.name` and the port that it listens on; where that is empty "
        "too, the address that the caller has used.",
        importance=_HIGH,
    ),
    ConfigKey(
        "host.name",
        ConfigKind.STRING,
        "",
        "The name of this machine for `base_uri`, where advertised.listeners is empty.",
    ),
    ConfigKey(
        "id",
        ConfigKind.STRING,
        "",
        "The name of this proxy among several, as `penstock.rest.peers` has it. Each proxy needs its own.",
        rule=Pattern("[A-Za-z0-9_.]{1,64}", "letters, digits, dots and underscores, at most 64"),
    ),
    ConfigKey(
        "penstock.rest.peers",
        ConfigKind.LIST,
        (),
        "All proxies, as ID=http://HOST:PORT,ID=http://HOST:PORT, the same list for each. A request for a consumer "
        "instance of another one is answered with 307 and its address; addresses are taken from this list alone.",
    ),
)

_LIMIT_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "penstock.rest.max.body.bytes",
        ConfigKind.INT,
        8 * _MIB,
        "The largest body of a request: some of its records become one batch, and brokers take batches of 1 MiB unless "
        "told otherwise.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.rest.max.inflight.bytes",
        ConfigKind.LONG,
        64 * _MIB,
        "How many bytes of bodies may be on their way to brokers at a time, over all callers. Those beyond wait. "
        "Records that become larger than their JSON when they are encoded count with that size; where there is no room "
        "for it the answer is 429.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.rest.max.records",
        ConfigKind.INT,
        100_000,
        "The most records of one request of v2. Each has an entry in the answer.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.rest.max.encoded.bytes",
        ConfigKind.INT,
        16 * _MIB,
        "The most bytes of keys and values, once they are encoded with their schemas: of one request of v2, and of one "
        "record of v3. The defaults of an Avro schema can make records much larger than their JSON.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.rest.max.connections",
        ConfigKind.INT,
        1024,
        "How many connections may be open.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.rest.max.callers",
        ConfigKind.INT,
        128,
        "For how many callers with credentials of their own connections to brokers are kept.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "streaming.connection.max.duration.ms",
        ConfigKind.LONG,
        86_400_000,
        "How long one streaming request of v3 may last; then 408.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.rest.stream.idle.ms",
        ConfigKind.LONG,
        300_000,
        "How long a streaming request of v3 may last without a byte from its client; then 408.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "api.v3.produce.batch.maximum.entries",
        ConfigKind.INT,
        10,
        "The most entries of `records:batch`.",
        rule=Range(1, 10_000),
        importance=_LOW,
    ),
)

_CONSUMER_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "consumer.instance.timeout.ms",
        ConfigKind.INT,
        300_000,
        "How long a consumer instance that nobody asks stays. Then it leaves its group, and is gone.",
        rule=Range(1),
    ),
    ConfigKey(
        "consumer.request.timeout.ms",
        ConfigKind.INT,
        1000,
        "How long a request for records waits where there are none, unless the instance or the request says otherwise.",
        rule=Range(0, 60_000),
    ),
    ConfigKey(
        "consumer.request.max.bytes",
        ConfigKind.LONG,
        64 * _MIB,
        "The most bytes of keys and values in one answer, whatever a request asks for.",
        rule=Range(1),
    ),
    ConfigKey(
        "fetch.min.bytes",
        ConfigKind.INT,
        -1,
        "How many bytes a request for records waits for, unless its instance says otherwise; -1 is one.",
        rule=Range(-1, 10_000_000),
    ),
    ConfigKey(
        "consumer.session.timeout.ms",
        ConfigKind.INT,
        10_000,
        "How long a group keeps an instance of a proxy that does not answer any more. Heartbeats come three times as "
        "often, and by them an instance hears of rebalances.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.rest.max.instances",
        ConfigKind.INT,
        1000,
        "How many consumer instances there may be.",
        rule=Range(1),
    ),
    ConfigKey(
        "penstock.rest.max.instances.per.client",
        ConfigKind.INT,
        100,
        "How many consumer instances one caller may have: a principal, or an address where nobody logs in.",
        rule=Range(1),
    ),
)

_RATE_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "rate.limit.enable",
        ConfigKind.BOOLEAN,
        False,
        "Whether the requests of v3 that one caller may make in a second are limited.",
    ),
    ConfigKey(
        "rate.limit.permits.per.sec",
        ConfigKind.INT,
        50,
        "How many requests a caller may make in a second, where `rate.limit.enable` is on.",
        rule=Range(1),
    ),
    ConfigKey(
        "api.v3.produce.rate.limit.enabled",
        ConfigKind.BOOLEAN,
        False,
        "Whether the records that one caller may write in a second by v3 are limited.",
    ),
    ConfigKey(
        "api.v3.produce.rate.limit.max.requests.per.sec",
        ConfigKind.INT,
        10_000,
        "How many records a caller may write in a second, where `api.v3.produce.rate.limit.enabled` is on.",
        rule=Range(1),
    ),
    ConfigKey(
        "api.v3.produce.rate.limit.max.bytes.per.sec",
        ConfigKind.INT,
        10_000_000,
        "How many bytes a caller may write in a second, where `api.v3.produce.rate.limit.enabled` is on.",
        rule=Range(1),
    ),
)

_LOGIN_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "penstock.rest.login.mechanisms",
        ConfigKind.LIST,
        (),
        "By which SASL mechanisms names and passwords are passed on to the brokers, in this order, where "
        "`penstock.http.broker.logins` is on. Empty: SCRAM, and PLAIN where the "
        "connection to the brokers is encrypted.",
        rule=OneOf(("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")),
    ),
)

SECTIONS: Final[tuple[tuple[str, tuple[ConfigKey, ...]], ...]] = (
    ("Brokers and registry", _CONNECTION_KEYS),
    ("Several proxies", _LISTENER_KEYS),
    ("Logins passed on", _LOGIN_KEYS),
    ("Limits", _LIMIT_KEYS),
    ("Rates", _RATE_KEYS),
    ("Consumer instances", _CONSUMER_KEYS),
)
REST_KEYS: Final = tuple(key for _, keys in SECTIONS for key in keys)

# Settings of kafka-rest without a meaning here: accepted, so that its files can be used.
IGNORED: Final = frozenset(
    {
        "access.control.allow.methods", "access.control.allow.origin", "api.v2.enable", "api.v3.enable",
        "client.init.timeout.ms", "client.timeout.ms", "consumer.iterator.backoff.ms", "consumer.iterator.timeout.ms",
        "consumer.threads", "debug", "metric.reporters", "metrics.jmx.prefix", "port", "producer.threads",
        "request.logger.name", "response.mediatype.default", "response.mediatype.preferred", "shutdown.graceful.ms",
        "simpleconsumer.pool.size.max", "simpleconsumer.pool.timeout.ms", "zookeeper.connect",
    }
)  # fmt: skip
_CLIENT: Final = "client."
_REGISTRY: Final = "schema.registry."
_OF_CLIENTS: Final = tuple(
    f"{client}.{kind}." for client in ("admin", "consumer", "producer") for kind in ("sasl", "security", "ssl")
)


class RestSettings(Settings):
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RestSettings:
        """Raises ConfigError for an unknown key, and for invalid values."""
        given = {name: text for name, text in properties.items() if name not in IGNORED}
        settings = cls.parse((*HTTP_KEYS, *REST_KEYS), given, (_CLIENT, _REGISTRY, *_OF_CLIENTS))
        settings.ignored = tuple(sorted(IGNORED.intersection(properties)))
        return settings

    def number(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int), name
        return value

    def text(self, name: str) -> str:
        value = self[name]
        assert isinstance(value, str), name
        return value

    @property
    def client(self) -> dict[str, str]:
        """The settings of the client that speaks to the brokers, by Kafka's names."""
        found: dict[str, str] = {}
        for prefix in _OF_CLIENTS:
            kind = prefix.partition(".")[2]
            found |= {f"{kind}{name}": text for name, text in self.under(prefix).items()}
        return found | self.under(_CLIENT)

    @property
    def registry(self) -> dict[str, str]:
        """The settings of the registry's client; the names are unchanged."""
        return {f"{_REGISTRY}{name}": text for name, text in self.under(_REGISTRY).items()}
