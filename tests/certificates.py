"""An authority with certificates for tests. Making one takes some milliseconds."""

from __future__ import annotations

import datetime
from pathlib import Path

from penstock.security.certificates.authority import Wanted
from penstock.security.certificates.directory import CertificateDirectory

LOCAL = ("localhost", "127.0.0.1")


def new_directory(path: Path, **clients: str | None) -> CertificateDirectory:
    """With a broker `broker` on this machine, and `clients` by name; the value is an organisation or None."""
    directory = CertificateDirectory(path, datetime.datetime.now(datetime.UTC))
    directory.create()
    directory.issue(Wanted("broker", "broker", LOCAL))
    for name, organization in clients.items():
        directory.issue(Wanted("client", name, (), organization))
    return directory


def broker_settings(directory: CertificateDirectory, **more: str) -> dict[str, str]:
    """Settings of a TLS listener; `client_auth="required"` stands for ssl.client.auth and so on."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory.file("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory.trusted),
        **{f"ssl.{name.replace('_', '.')}": value for name, value in more.items()},
    }


def client_settings(directory: CertificateDirectory, name: str | None = None) -> dict[str, str]:
    """Kafka's client properties, with a certificate where one is named."""
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory.trusted),
    }
    if name is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(directory.file(name))}
    return settings
