"""Key stores and trust stores: PEM and PKCS12 files, and PEM in the settings. All of them become PEM in memory.

Every refusal names the key of the setting and says what to do. No message contains what a store contains.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.config.types import ConfigError
from penstock.security.tls.settings import CertificateStore

if TYPE_CHECKING:  # 20 MB; PEM does without
    from cryptography.x509 import Certificate

# Java's own two formats begin with these.
_JKS_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE = b"\x30"
# A store of thousands of certificates; a larger file is no store.
_MAX_STORE_BYTES = 4 * 1024 * 1024
_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL)
_CONVERT = (
    "is in Java's own format JKS. Convert it: keytool -importkeystore -srckeystore {name} -destkeystore {stem}.p12 "
    "-deststoretype PKCS12; then set ssl.{kind}.location to the new file and ssl.{kind}.type=PKCS12"
)


class KeyMaterial(NamedTuple):
    """A private key with its certificates, the own one first, all as PEM."""

    key: str
    certificates: tuple[str, ...]
    password: str | None

    def __repr__(self) -> str:  # without the key
        return f"KeyMaterial({len(self.certificates)} certificates)"

    @property
    def leaf_der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificates[0])


def load_key_material(store: CertificateStore) -> KeyMaterial:
    """The store must be given. Raises ConfigError."""
    if store.key or store.certificates:
        return _inline_key_material(store)
    data = read_file(f"ssl.{store.kind}.location", store.location)
    if _is_pem(store, data):
        text = _text(store, data)
        return _key_material_of_pem(f"ssl.{store.kind}.location", text, text, store.key_password)
    return _key_material_of_pkcs12(store, data)


def load_trusted(store: CertificateStore) -> tuple[str, ...]:
    """The certificates of a given trust store, as PEM. Raises ConfigError."""
    if store.certificates:
        key, certificates = f"ssl.{store.kind}.certificates", _blocks(store.certificates, "CERTIFICATE")
    else:
        key = f"ssl.{store.kind}.location"
        data = read_file(key, store.location)
        if _is_pem(store, data):
            certificates = _blocks(_text(store, data), "CERTIFICATE")
        else:
            certificates = _trusted_of_pkcs12(store, data)
    if not certificates:
        raise ConfigError(f"{key}: there is no certificate in it; expected those of the trusted authorities", key=key)
    return certificates


def read_file(key: str, location: str | None) -> bytes:
    assert location is not None
    try:
        with Path(location).open("rb") as file:
            data = file.read(_MAX_STORE_BYTES + 1)
    except OSError as error:
        raise ConfigError.of_value(key, location, f"The file cannot be read: {error.strerror}") from error
    if len(data) > _MAX_STORE_BYTES:
        raise ConfigError.of_value(key, location, f"The file is larger than {_MAX_STORE_BYTES} bytes")
    return data


def _inline_key_material(store: CertificateStore) -> KeyMaterial:
    if store.location:
        key = "ssl.keystore.location"
        raise ConfigError(f"{key} and ssl.keystore.key exclude each other; remove one of them", key=key)
    if not store.key or not store.certificates:
        missing = "ssl.keystore.certificate.chain" if store.key else "ssl.keystore.key"
        raise ConfigError(f"{missing} is missing: the key and its certificates are given together", key=missing)
    return _key_material_of_pem("ssl.keystore.key", store.key, store.certificates, store.key_password)


def _key_material_of_pem(setting: str, key_text: str, chain_text: str, password: str | None) -> KeyMaterial:
    keys = [match[0] for match in _BLOCK.finditer(key_text) if match["label"].endswith("PRIVATE KEY")]
    certificates = _blocks(chain_text, "CERTIFICATE")
    if len(keys) != 1:
        raise ConfigError(f"{setting}: expected one private key as PEM, found {len(keys)}", key=setting)
    if not certificates:
        raise ConfigError(f"{setting}: there is no certificate beside the private key", key=setting)
    return KeyMaterial(keys[0], certificates, password)


def _blocks(text: str, label: str) -> tuple[str, ...]:
    return tuple(match[0] for match in _BLOCK.finditer(text) if match["label"] == label)


def _is_pem(store: CertificateStore, data: bytes) -> bool:
    """Whether a file is PEM, and not PKCS12. Raises ConfigError for a file that is neither, or not of its stated
    type.
    """
    key = f"ssl.{store.kind}.location"
    if data.startswith(_JKS_MAGICS):
        name = str(store.location)
        stem = name.rpartition(".")[0] or name
        raise ConfigError.of_value(key, name, "The file " + _CONVERT.format(name=name, stem=stem, kind=store.kind))
    if b"-----BEGIN " in data:
        found = "PEM"
    elif data.startswith(_DER_SEQUENCE):
        found = "PKCS12"
    else:
        raise ConfigError.of_value(key, store.location, "The file is neither PEM nor PKCS12")
    if store.type not in ("JKS", found):
        reason = f"The file is {found}, and ssl.{store.kind}.type says {store.type}; set ssl.{store.kind}.type={found}"
        raise ConfigError.of_value(key, store.location, reason)
    return found == "PEM"


def _text(store: CertificateStore, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError.of_value(f"ssl.{store.kind}.location", store.location, "The file is no text") from error


# ---------------------------------------------------------------------------------- PKCS12


def _key_material_of_pkcs12(store: CertificateStore, data: bytes) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    setting = f"ssl.{store.kind}.location"
    try:
        key, certificate, others = pkcs12.load_key_and_certificates(data, _pkcs12_password(store))
    except ValueError as error:
        raise _bad_pkcs12(store) from error
    if key is None or certificate is None:
        raise ConfigError.of_value(setting, store.location, "There is no private key with a certificate in the file")
    chain = [each.public_bytes(Encoding.PEM).decode() for each in (certificate, *_in_order(certificate, others))]
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return KeyMaterial(pem, tuple(chain), None)


def _in_order(leaf: Certificate, others: list[Certificate]) -> list[Certificate]:
    """PKCS12 keeps certificates in any order, and TLS sends each before the one that signed it."""
    chain: list[Certificate] = []
    last, left = leaf, list(others)
    while True:
        issuers = [each for each in left if each.subject == last.issuer and each is not last]
        if not issuers:
            return chain
        last = issuers[0]
        left.remove(last)
        chain.append(last)


def _trusted_of_pkcs12(store: CertificateStore, data: bytes) -> tuple[str, ...]:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        loaded = pkcs12.load_pkcs12(data, _pkcs12_password(store))
    except ValueError as error:
        raise _bad_pkcs12(store) from error
    bags = [each for each in (loaded.cert, *loaded.additional_certs) if each is not None]
    return tuple(each.certificate.public_bytes(Encoding.PEM).decode() for each in bags)


def _pkcs12_password(store: CertificateStore) -> bytes | None:
    return None if store.password is None else store.password.encode()


def _bad_pkcs12(store: CertificateStore) -> ConfigError:
    reason = f"The PKCS12 file cannot be opened: ssl.{store.kind}.password is wrong or missing, or the file is damaged"
    return ConfigError.of_value(f"ssl.{store.kind}.location", store.location, reason)
