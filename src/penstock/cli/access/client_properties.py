"""Client settings: a Java client's property file read as librdkafka settings.

People have `client.properties` files for Kafka's tools; --command-config accepts them.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.errors import UsageError
from penstock.client.java_settings import JAVA_ONLY, JavaStoreError, NoCredentialsError, translate_client_settings

_JAVA_ONLY = JAVA_ONLY | {
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "value.deserializer",
    "value.serializer",
}
_STORE_HINT = (
    "Convert it: `keytool -importkeystore -srckeystore F -destkeystore F.p12 -deststoretype PKCS12`, "
    "then for a trust store `openssl pkcs12 -in F.p12 -nokeys -out ca.pem` and ssl.ca.location=ca.pem."
)
_LOGIN_HINT = "Kafka's own login modules can be read; otherwise the file takes librdkafka's sasl.* settings."


def translate_client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """librdkafka settings that mean what the Java client would understand by `properties`."""
    try:
        return translate_client_settings(properties, _JAVA_ONLY, with_token=True)
    except JavaStoreError as error:
        raise UsageError(str(error), _STORE_HINT) from error
    except NoCredentialsError as error:
        raise UsageError(str(error), _LOGIN_HINT) from error
