"""Client settings given as `kafka.*` options, with the Java client's names, as librdkafka settings."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.java_settings import JAVA_ONLY, JavaStoreError, NoCredentialsError, translate_client_settings
from penstock.pipelines.options import OptionError

_JAVA_ONLY = JAVA_ONLY | {"partitioner.availability.timeout.ms"}


def to_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """`settings` without their prefix `kafka.`."""
    try:
        return translate_client_settings(settings, _JAVA_ONLY)
    except JavaStoreError as error:
        raise OptionError(
            f"option kafka.ssl.{error.kind}.location names a {error.store_type} store, which only Java reads; it"
            f" accepts {' or '.join(sorted(error.accepted))}. `keytool -importkeystore` and `openssl pkcs12` convert it"
        ) from error
    except NoCredentialsError as error:
        raise OptionError(
            f"option kafka.{error}. Give librdkafka's own settings otherwise, such as kafka.sasl.kerberos.keytab or"
            " kafka.sasl.oauthbearer.config"
        ) from error
