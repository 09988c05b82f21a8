"""Keys of the check of schemas: which topics have it, and where the registry is. The names are Confluent's."""

from __future__ import annotations

from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, ConfigValue, OneOf, UpdateMode

_PACKAGE = "io.confluent.kafka.serializers.subject."
TOPIC_NAME_STRATEGY = f"{_PACKAGE}TopicNameStrategy"
RECORD_NAME_STRATEGY = f"{_PACKAGE}RecordNameStrategy"
TOPIC_RECORD_NAME_STRATEGY = f"{_PACKAGE}TopicRecordNameStrategy"
_STRATEGIES = OneOf((TOPIC_NAME_STRATEGY, RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY))
REGISTRY_URL = "confluent.schema.registry.url"


class Addresses:
    """A URL must hold no login: DescribeConfigs shows the value."""

    def check(self, key: str, value: ConfigValue) -> None:
        if "@" in str(value):
            raise ConfigError.of_value(key, "[hidden]", f"Expected {self}")

    def __str__(self) -> str:
        return "http://HOST:PORT or https://HOST:PORT, without a name and a password"


def _validation(side: str) -> ConfigKey:
    return ConfigKey(
        f"confluent.{side}.schema.validation",
        ConfigKind.BOOLEAN,
        False,
        f"Whether the {side} of each record must name a schema that the registry of `{REGISTRY_URL}` has under the "
        f"subject of the {side}. A record that does not is refused (INVALID_RECORD); while the registry is out of "
        "reach, producers are told to try again. The brokers open the batches of such topics.",
        mode=UpdateMode.CLUSTER_WIDE,
    )


def _strategy(side: str) -> ConfigKey:
    return ConfigKey(
        f"confluent.{side}.subject.name.strategy",
        ConfigKind.STRING,
        TOPIC_NAME_STRATEGY,
        f"Under which subject the registry must have the schema of a {side}: `TOPIC-{side}`, the name of the record, "
        "or `TOPIC-RECORD`.",
        _STRATEGIES,
        mode=UpdateMode.CLUSTER_WIDE,
    )


SCHEMA_TOPIC_KEYS: tuple[ConfigKey, ...] = tuple(
    make(side) for side in ("key", "value") for make in (_validation, _strategy)
)

SCHEMA_REGISTRY_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        REGISTRY_URL,
        ConfigKind.STRING,
        "",
        "Where the schema registry is that topics with `confluent.value.schema.validation` are checked against: one "
        "address or several, separated by commas.",
        Addresses(),
    ),
    ConfigKey(
        "confluent.basic.auth.credentials.source",
        ConfigKind.STRING,
        "",
        "How the broker logs in at the registry. There is one way, USER_INFO, with `confluent.basic.auth.user.info`.",
        OneOf(("", "USER_INFO")),
    ),
    ConfigKey(
        "confluent.basic.auth.user.info",
        ConfigKind.PASSWORD,
        None,
        "The broker's name and password at the registry, as NAME:PASSWORD.",
    ),
    ConfigKey(
        "confluent.bearer.auth.token",
        ConfigKind.PASSWORD,
        None,
        "The broker's token at the registry, instead of a password.",
    ),
    ConfigKey(
        "confluent.ssl.truststore.location",
        ConfigKind.STRING,
        None,
        "The file with the certificates that the registry's own is checked against. Empty: those of the system.",
    ),
    ConfigKey(
        "confluent.ssl.truststore.type",
        ConfigKind.STRING,
        None,
        "The format of `confluent.ssl.truststore.location`: PEM or PKCS12.",
    ),
    ConfigKey(
        "confluent.ssl.truststore.password",
        ConfigKind.PASSWORD,
        None,
        "The password of `confluent.ssl.truststore.location`.",
    ),
    ConfigKey(
        "confluent.ssl.keystore.location",
        ConfigKind.STRING,
        None,
        "The file with the broker's key and certificate for the registry, where the registry asks for one.",
    ),
    ConfigKey(
        "confluent.ssl.keystore.type",
        ConfigKind.STRING,
        None,
        "The format of `confluent.ssl.keystore.location`: PEM or PKCS12.",
    ),
    ConfigKey(
        "confluent.ssl.keystore.password",
        ConfigKind.PASSWORD,
        None,
        "The password of `confluent.ssl.keystore.location`.",
    ),
    ConfigKey(
        "confluent.ssl.key.password",
        ConfigKind.PASSWORD,
        None,
        "The password of the key in `confluent.ssl.keystore.location`.",
    ),
)
