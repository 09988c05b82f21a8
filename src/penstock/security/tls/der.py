"""Reads what the broker needs of a certificate from its DER: names, validity, alternative names.

OpenSSL has parsed every certificate that comes here, and verified a client's, so the reader only has to be safe, not
complete: anything unexpected is a `DerError`. `cryptography` could read it too, but its import takes 20 MB and 60 ms,
which a broker with PEM files saves.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, INTEGER = 0x30, 0x02
_SET, _OBJECT_ID, _OCTETS = 0x31, 0x06, 0x04
_VERSION_TAG, _EXTENSIONS_TAG = 0xA0, 0xA3
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_ALTERNATIVE_NAME = "2.5.29.17"
# No certificate of the real world has more than a few attributes and extensions; these bound the work for one.
_MAX_ELEMENTS = 10_000


class DerError(ValueError):
    """The bytes are no certificate as RFC 5280 has it."""


class Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes  # tag and length included


class Attribute(NamedTuple):
    object_id: str
    value: Element


# One level of a name: mostly a single attribute.
RelativeName = tuple[Attribute, ...]


class CertificateFacts(NamedTuple):
    subject: tuple[RelativeName, ...]  # from the least to the most specific, as in the certificate
    issuer_der: bytes
    subject_der: bytes
    valid_from: datetime.datetime
    valid_until: datetime.datetime
    alternative_names: frozenset[bytes]  # the DER of each GeneralName
    serial: bytes = b""  # the bytes of its INTEGER

    @property
    def is_self_issued(self) -> bool:
        return self.issuer_der == self.subject_der


def read_elements(data: bytes, most: int = _MAX_ELEMENTS) -> Iterator[Element]:
    position = count = 0
    while position < len(data):
        element, position = _read_element(data, position)
        count += 1
        if count > most:
            raise DerError("too many elements")
        yield element


def _read_element(data: bytes, start: int) -> tuple[Element, int]:
    if start + 2 > len(data):
        raise DerError("an element ends too early")
    tag, size, position = data[start], data[start + 1], start + 2
    if size & 0x80:
        length_size = size & 0x7F
        if not 1 <= length_size <= 4 or position + length_size > len(data):
            raise DerError("an element has no valid length")
        size = int.from_bytes(data[position : position + length_size], "big")
        position += length_size
    end = position + size
    if end > len(data):
        raise DerError("an element is longer than its surroundings")
    return Element(tag, data[position:end], data[start:end]), end


def read_certificate(der: bytes) -> CertificateFacts:
    """Raises DerError."""
    (certificate,) = _expect(read_elements(der), 1)
    to_be_signed = next(read_elements(content(certificate, SEQUENCE)), None)
    if to_be_signed is None:
        raise DerError("an empty certificate")
    fields = list(read_elements(content(to_be_signed, SEQUENCE)))
    if fields and fields[0].tag == _VERSION_TAG:
        del fields[0]
    if len(fields) < 6:
        raise DerError("a certificate lacks fields")
    serial, _, issuer, validity, subject, _, *rest = fields  # ..., algorithm, ..., public key
    valid_from, valid_until = _expect(read_elements(content(validity, SEQUENCE)), 2)
    return CertificateFacts(
        tuple(_read_relative_name(each) for each in read_elements(content(subject, SEQUENCE))),
        issuer.whole,
        subject.whole,
        _read_time(valid_from),
        _read_time(valid_until),
        _read_alternative_names(rest),
        content(serial, INTEGER),
    )


def _read_relative_name(element: Element) -> RelativeName:
    attributes = []
    for pair in read_elements(content(element, _SET)):
        object_id, value = _expect(read_elements(content(pair, SEQUENCE)), 2)
        attributes.append(Attribute(_read_object_id(object_id), value))
    return tuple(attributes)


def _read_object_id(element: Element) -> str:
    octets = content(element, _OBJECT_ID)
    if not octets:
        raise DerError("an empty object identifier")
    first = min(octets[0] // 40, 2)
    numbers, number = [first, octets[0] - 40 * first], 0
    for byte in octets[1:]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return ".".join(map(str, numbers))


def _read_time(element: Element) -> datetime.datetime:
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(element.tag)
    if form is None:
        raise DerError("a validity that is no time")
    try:
        moment = datetime.datetime.strptime(element.content.decode("ascii"), form).replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise DerError(f"a validity that is no time: {error}") from error
    # RFC 5280: two digits from 50 on are of the last century; Python draws the line at 69.
    if element.tag == _UTC_TIME and moment.year >= 2050:
        moment = moment.replace(year=moment.year - 100)
    return moment


def _read_alternative_names(fields: list[Element]) -> frozenset[bytes]:
    for field in fields:
        if field.tag != _EXTENSIONS_TAG:
            continue
        (extensions,) = _expect(read_elements(field.content), 1)
        for extension in read_elements(content(extensions, SEQUENCE)):
            object_id, *_, value = read_elements(content(extension, SEQUENCE))
            if _read_object_id(object_id) == _ALTERNATIVE_NAME:
                (names,) = _expect(read_elements(content(value, _OCTETS)), 1)
                return frozenset(name.whole for name in read_elements(content(names, SEQUENCE)))
    return frozenset()


def content(element: Element, tag: int) -> bytes:
    if element.tag != tag:
        raise DerError(f"tag {element.tag:#x} where {tag:#x} is expected")
    return element.content


def _expect(elements: Iterator[Element], count: int) -> list[Element]:
    found = list(elements)
    if len(found) != count:
        raise DerError(f"{len(found)} elements where {count} are expected")
    return found
