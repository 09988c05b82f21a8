"""Names as Java writes them: the texts on the right are those of `X500Principal.getName()` of Java 17."""

from __future__ import annotations

import contextlib
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.certificates.authority import new_key
from penstock.security.tls.der import DerError, read_certificate
from penstock.security.tls.distinguished_names import format_name

_KEY = new_key()
_NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

Attribute = x509.NameAttribute


def certificate(name: x509.Name, until: datetime.datetime | None = None) -> bytes:
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(_KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(_NOW)
    builder = builder.not_valid_after(until or _NOW + datetime.timedelta(days=1))
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def written(*attributes: Attribute[str]) -> str:
    return format_name(read_certificate(certificate(x509.Name(list(attributes)))).subject)


def test_most_specific_part_comes_first_when_a_name_has_several() -> None:
    name = written(
        Attribute(NameOID.COUNTRY_NAME, "DE"),
        Attribute(NameOID.ORGANIZATION_NAME, "Acme, Inc"),
        Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops"),
        Attribute(NameOID.COMMON_NAME, "w1"),
    )
    assert name == r"CN=w1,OU=Ops,O=Acme\, Inc,C=DE"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a#b=c", r"a\#b\=c"),
        ('<a>;"b"+\\c', r"\<a\>\;\"b\"\+\\c"),
        (" a ", r"\ a\ "),
        ("  ", r"\ \ "),
        ("Müller", "Müller"),
    ],
)
def test_characters_are_escaped_as_java_does_when_they_mean_something(value: str, expected: str) -> None:
    assert written(Attribute(NameOID.COMMON_NAME, value)) == f"CN={expected}"


def test_type_comes_by_number_when_java_knows_no_word_for_it() -> None:
    name = written(Attribute(NameOID.EMAIL_ADDRESS, "a@b", _ASN1Type.IA5String), Attribute(NameOID.COMMON_NAME, "x"))
    assert name == "CN=x,1.2.840.113549.1.9.1=#1603614062"


def test_parts_are_joined_by_plus_when_they_are_of_one_level() -> None:
    level = x509.RelativeDistinguishedName([Attribute(NameOID.COMMON_NAME, "a"), Attribute(NameOID.USER_ID, "7")])
    name = format_name(read_certificate(certificate(x509.Name([level]))).subject)
    assert sorted(name.split("+")) == ["CN=a", "UID=7"]


@pytest.mark.parametrize("year", [2049, 2050, 2099])
def test_end_of_validity_is_read_when_it_is_in_either_form(year: int) -> None:
    until = datetime.datetime(year, 7, 1, 12, 30, tzinfo=datetime.UTC)
    assert read_certificate(certificate(x509.Name([]), until)).valid_until == until


@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_refused_when_read(data: bytes) -> None:
    with pytest.raises(DerError):
        read_certificate(data)


_WHOLE = certificate(x509.Name([Attribute(NameOID.COMMON_NAME, "x")]))


@given(st.integers(0, len(_WHOLE) - 1), st.integers(0, 255))
def test_damaged_certificate_is_read_or_refused_when_a_byte_is_another(position: int, byte: int) -> None:
    damaged = bytearray(_WHOLE)
    damaged[position] = byte
    with contextlib.suppress(DerError):
        format_name(read_certificate(bytes(damaged)).subject)
