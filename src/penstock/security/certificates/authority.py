"""Certificates, requests and revocation lists: their contents. No files, no clock.

Keys are P-256: a signature costs a tenth of RSA's, and a broker makes one in every handshake. An authority signs only
leaves (path length 0). A certificate begins five minutes in the past, since clocks differ.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = datetime.timedelta(days=3650)
LEAF_LIFE = datetime.timedelta(days=90)
_BACKDATED = datetime.timedelta(minutes=5)
_LEAST_RSA_BITS = 2048

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

# A broker is a client of other brokers, too.
_PURPOSES = {
    "broker": (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    "client": (ExtendedKeyUsageOID.CLIENT_AUTH,),
}
KINDS = tuple(_PURPOSES)


class BadRequestError(ValueError):
    """A signing request that must be refused, or names that a certificate cannot have."""


class Authority(NamedTuple):
    certificate: x509.Certificate
    key: PrivateKey


class Wanted(NamedTuple):
    """The purpose of a leaf certificate."""

    kind: str  # broker or client
    name: str
    hosts: tuple[str, ...]  # names and addresses, for a broker
    organization: str | None = None


class Revoked(NamedTuple):
    serial: int
    at: datetime.datetime


def new_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def create_authority(name: str, now: datetime.datetime) -> Authority:
    key = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key(), now, AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: Authority, wanted: Wanted, public_key: PublicKey, now: datetime.datetime, life: datetime.timedelta
) -> x509.Certificate:
    """Never outlives its authority."""
    issuer = authority.certificate
    life = min(life, issuer.not_valid_after_utc - now)
    builder = _builder(_subject(wanted), issuer.subject, public_key, now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(_PURPOSES[wanted.kind]), critical=False)
    builder = builder.add_extension(_authority_identifier(issuer), critical=False)
    if wanted.hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(_host_names(wanted.hosts)), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def read_request(pem: bytes) -> tuple[PublicKey, tuple[str, ...]]:
    """The public key and the host names of a signing request; the rest is ignored. Raises BadRequestError."""
    try:
        request = x509.load_pem_x509_csr(pem)
        is_valid = request.is_signature_valid
    except (ValueError, InvalidSignature) as error:
        raise BadRequestError("it is no signing request as PEM") from error
    if not is_valid:
        raise BadRequestError("its signature does not belong to its key")
    key = request.public_key()
    is_strong = isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) or (
        isinstance(key, rsa.RSAPublicKey) and key.key_size >= _LEAST_RSA_BITS
    )
    if not is_strong:
        raise BadRequestError(f"its key is too weak: RSA with {_LEAST_RSA_BITS} bits, or an elliptic curve, is needed")
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return key, ()  # type: ignore[return-value]  # what else is there was refused
    hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    return key, tuple(hosts)  # type: ignore[return-value]


def revocation_list(authority: Authority, revoked: Iterable[Revoked], now: datetime.datetime) -> str:
    """Valid as long as the authority: servers get the list as a file, and fetch no newer one when it is old."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now - _BACKDATED)
        .next_update(authority.certificate.not_valid_after_utc)
        .add_extension(_authority_identifier(authority.certificate), critical=False)
    )
    for serial, at in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(at).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def key_pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def check_hosts(hosts: Sequence[str]) -> None:
    """Raises BadRequestError unless the name is a host name or an address."""
    _host_names(hosts)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: PublicKey,
    now: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _subject(wanted: Wanted) -> x509.Name:
    """The organisation comes first in the certificate, and so last in the printed name."""
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, wanted.name)]
    if wanted.organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, wanted.organization))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _host_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            try:
                names.append(x509.DNSName(host.encode("idna").decode("ascii")))
            except (ValueError, UnicodeError) as error:
                raise BadRequestError(f"{host!r} is neither a host name nor an address") from error
    return names
