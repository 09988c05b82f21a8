"""Client settings: a Java client's property file read as librdkafka settings.

People have `client.properties` files for Kafka's tools; --command-config accepts them. Most keys are the same in both
worlds; the tables below hold those that are not. What is in none of them goes to librdkafka as it is, so its own keys
work in the same file, and it refuses what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.cli.errors import UsageError

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "delivery.timeout.ms": "message.timeout.ms",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.location": "ssl.ca.location",
}

# They steer the Java client's insides (classes, memory, metrics); leaving them out changes nothing here.
_JAVA_ONLY = frozenset(
    {
        "auto.include.jmx.reporter", "buffer.memory", "default.api.timeout.ms", "exclude.internal.topics",
        "interceptor.classes", "key.deserializer", "key.serializer", "max.block.ms", "max.poll.records",
        "metadata.max.idle.ms", "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples",
        "metrics.recording.level", "metrics.sample.window.ms", "partitioner.adaptive.partitioning.enable",
        "partitioner.class", "partitioner.ignore.keys", "request.timeout.ms", "security.providers",
        "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.engine.factory.class", "ssl.keymanager.algorithm",
        "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
        "ssl.truststore.password", "value.deserializer", "value.serializer",
    }
)  # fmt: skip

_JAAS_CREDENTIAL = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_STORE_HINT = (
    "Convert it: `keytool -importkeystore -srckeystore F -destkeystore F.p12 -deststoretype PKCS12`, "
    "then for a trust store `openssl pkcs12 -in F.p12 -nokeys -out ca.pem` and ssl.ca.location=ca.pem."
)


def translate_client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """librdkafka settings that mean what the Java client would understand by `properties`."""
    _refuse_java_stores(properties)
    settings: dict[str, str] = {}
    for key, value in properties.items():
        if key == "sasl.jaas.config":
            settings.update(parse_jaas(value))
        elif key in _JAVA_ONLY or (key.startswith("ssl.") and key.endswith("store.type")):
            continue
        elif key == "ssl.endpoint.identification.algorithm":
            settings[key] = value or "none"  # the Java client switches the check off with an empty value
        elif key == "ssl.keystore.location" and properties.get("ssl.keystore.type", "").upper() == "PEM":
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = value
        else:
            settings[_RENAMED.get(key, key)] = value
    return settings


def parse_jaas(text: str) -> dict[str, str]:
    """User name and password of a PLAIN or SCRAM login module."""
    found = {name: double or single for name, double, single in _JAAS_CREDENTIAL.findall(text)}
    if "username" not in found or "password" not in found:
        raise UsageError(
            "sasl.jaas.config holds no username and password",
            "Only PLAIN and SCRAM login modules can be read; for others give librdkafka's sasl.* settings with -X.",
        )
    return {
        "sasl.username": re.sub(r"\\(.)", r"\1", found["username"]),
        "sasl.password": re.sub(r"\\(.)", r"\1", found["password"]),
    }


def _refuse_java_stores(properties: Mapping[str, str]) -> None:
    for kind, accepted in (("truststore", {"PEM"}), ("keystore", {"PEM", "PKCS12"})):
        location = properties.get(f"ssl.{kind}.location", "")
        store_type = properties.get(f"ssl.{kind}.type", "").upper() or _guess_store_type(location)
        if location and store_type not in accepted:
            raise UsageError(f"{location} is a {store_type} {kind}, which only Java reads", _STORE_HINT)


def _guess_store_type(location: str) -> str:
    suffix = location.rpartition(".")[2].lower()
    return {"pem": "PEM", "crt": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}.get(suffix, "JKS")
