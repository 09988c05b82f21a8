"""A Java client's settings as librdkafka settings.

Most names are the same in both worlds; the tables hold those that are not. What is in none of them goes to librdkafka
as it is, so its own names work too, and it refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core import jaas
from penstock.core.config.types import ConfigError

_RENAMED = {
    "delivery.timeout.ms": "message.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.location": "ssl.ca.location",
}

# These settings steer the Java client's insides (classes, memory, metrics); leaving them out changes nothing here.
JAVA_ONLY = frozenset(
    {
        "auto.include.jmx.reporter", "buffer.memory", "default.api.timeout.ms", "exclude.internal.topics",
        "max.block.ms", "max.poll.records", "metadata.max.idle.ms", "metadata.recovery.strategy", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable", "partitioner.class", "partitioner.ignore.keys",
        "request.timeout.ms", "security.providers", "ssl.cipher.suites", "ssl.enabled.protocols",
        "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.password",
    }
)  # fmt: skip

# Our own name: the user is the id of a delegation token, the password its HMAC. librdkafka has none for it.
TOKEN = "penstock.sasl.tokenauth"  # noqa: S105  # the name of a setting

_STORE_TYPES = {"pem": "PEM", "crt": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}
_ACCEPTED_STORES = {"truststore": frozenset({"PEM"}), "keystore": frozenset({"PEM", "PKCS12"})}


NO_TOKENS = "librdkafka does not log in with tokens"


class NoCredentialsError(ValueError):
    """`sasl.jaas.config` names no login module of Kafka's own, or leaves out what it needs."""


class JavaStoreError(ValueError):
    """A store that only Java reads."""

    def __init__(self, kind: str, location: str, store_type: str, accepted: frozenset[str]) -> None:
        super().__init__(f"{location} is a {store_type} {kind}, which only Java reads")
        self.kind = kind
        self.store_type = store_type
        self.accepted = accepted


def translate_client_settings(
    settings: Mapping[str, str], java_only: frozenset[str] = JAVA_ONLY, *, with_token: bool = False
) -> dict[str, str]:
    """librdkafka settings that mean what the Java client would understand by `settings`. Whoever can do without
    librdkafka also takes a delegation token, as the setting `TOKEN`.
    """
    settings = {name: value.strip() for name, value in settings.items()}  # as Kafka does with every text
    for kind, accepted in _ACCEPTED_STORES.items():
        location, store_type = settings.get(f"ssl.{kind}.location", ""), _store_type(settings, kind)
        if location and store_type not in accepted:
            raise JavaStoreError(kind, location, store_type, accepted)
    translated: dict[str, str] = {}
    for name, value in settings.items():
        if name == "sasl.jaas.config":
            translated.update(parse_jaas(value))
            if TOKEN in translated and not with_token:
                raise NoCredentialsError(f"sasl.jaas.config has a delegation token, and {NO_TOKENS}")
        elif name in java_only or (name.startswith("ssl.") and name.endswith("store.type")):
            continue
        elif name == "ssl.endpoint.identification.algorithm":
            translated[name] = value or "none"  # the Java client switches the check off with an empty value
        elif name == "ssl.keystore.location" and _store_type(settings, "keystore") == "PEM":
            translated["ssl.certificate.location"] = translated["ssl.key.location"] = value
        else:
            translated[_RENAMED.get(name, name)] = value
    return translated


# Options of the other modules, by the names of librdkafka.
_OAUTHBEARER_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_KERBEROS_OPTIONS = {
    "keyTab": "sasl.kerberos.keytab",
    "principal": "sasl.kerberos.principal",
    "serviceName": "sasl.kerberos.service.name",
}


def parse_jaas(text: str) -> dict[str, str]:
    """What a login module of Kafka's says, as settings of librdkafka. Raises NoCredentialsError."""
    try:
        module = jaas.parse_jaas(text)
    except ConfigError as error:
        raise NoCredentialsError(error.message.removeprefix("Invalid value for configuration ")) from None
    options = module.options
    if module.name == jaas.OAUTHBEARER_MODULE:
        return {"sasl.oauthbearer.method": "oidc"} | _renamed(options, _OAUTHBEARER_OPTIONS)
    if module.name == jaas.KERBEROS_MODULE:
        return _renamed(options, _KERBEROS_OPTIONS)
    if "username" not in options or "password" not in options:
        raise NoCredentialsError("sasl.jaas.config holds no username and password")
    named = {f"sasl.{name}": options[name] for name in ("username", "password")}
    is_token = module.name == jaas.SCRAM_MODULE and options.get("tokenauth", "false").lower() == "true"
    return named | {TOKEN: "true"} if is_token else named


def _renamed(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {name: options[option] for option, name in names.items() if option in options}


def _store_type(settings: Mapping[str, str], kind: str) -> str:
    suffix = settings.get(f"ssl.{kind}.location", "").rpartition(".")[2].lower()
    return settings.get(f"ssl.{kind}.type", "").upper() or _STORE_TYPES.get(suffix, "JKS")
