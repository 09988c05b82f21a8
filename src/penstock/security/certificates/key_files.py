"""Keys and certificates in the formats of other programs."""

from __future__ import annotations

from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from penstock.security.certificates.authority import PrivateKey


class PemFiles(NamedTuple):
    key: bytes
    certificate: bytes


def split_pem(both: bytes) -> PemFiles:
    """The two parts of a file with a key and its certificate."""
    key = load_pem_private_key(both, None)
    certificate = x509.load_pem_x509_certificate(both)
    return PemFiles(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), certificate.public_bytes(Encoding.PEM)
    )


def to_pkcs12(name: str, both: bytes, authorities: bytes, password: str) -> bytes:
    """A key store that Java and other programs read."""
    key = load_pem_private_key(both, None)
    assert isinstance(key, PrivateKey)
    certificate = x509.load_pem_x509_certificate(both)
    chain = x509.load_pem_x509_certificates(authorities)
    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, chain, encryption)


def to_java_truststore(authorities: bytes, password: str) -> bytes:
    """A trust store as Java's keytool makes it: PKCS12 with the mark that Java looks for."""
    trusted = [
        pkcs12.PKCS12Certificate(each, f"authority-{number}".encode())
        for number, each in enumerate(x509.load_pem_x509_certificates(authorities))
    ]
    return pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(password.encode()))
