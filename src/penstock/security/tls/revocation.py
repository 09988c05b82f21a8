"""Looks up certificates in revocation lists, for connections that are open already.

OpenSSL checks the list, and its signature, during a handshake. This module looks up a connection that was made before
its certificate was revoked, by issuer and serial number.
"""

from __future__ import annotations

import base64
import re

from penstock.security.tls.der import INTEGER, SEQUENCE, DerError, Element, content, read_elements

# (issuer as DER, serial number as the bytes of its INTEGER)
CertificateId = tuple[bytes, bytes]

_BLOCK = re.compile(rb"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
# A list of the largest size that is read has no more.
_MOST_ENTRIES = 1_000_000


def read_revoked(pem: bytes) -> frozenset[CertificateId]:
    """The certificates that all lists in the file revoke. Raises DerError."""
    revoked: set[CertificateId] = set()
    for block in _BLOCK.findall(pem):
        try:
            der = base64.b64decode(block, validate=False)
        except ValueError as error:
            raise DerError("a revocation list is no base64") from error
        revoked |= _read_list(der)
    return frozenset(revoked)


def _read_list(der: bytes) -> set[CertificateId]:
    signed = _first(der)
    fields = list(read_elements(content(_first(content(signed, SEQUENCE)), SEQUENCE)))
    if fields and fields[0].tag == INTEGER:  # the version, which lists of version 1 leave out
        del fields[0]
    if len(fields) < 3:
        raise DerError("a revocation list lacks fields")
    _, issuer, _, *rest = fields  # algorithm, ..., this update
    # The entries are the only sequence behind the times; a list that revokes nothing has none.
    entries = next((each for each in rest if each.tag == SEQUENCE), None)
    if entries is None:
        return set()
    return {
        (issuer.whole, content(_first(content(entry, SEQUENCE)), INTEGER))
        for entry in read_elements(entries.content, _MOST_ENTRIES)
    }


def _first(data: bytes) -> Element:
    found = next(read_elements(data), None)
    if found is None:
        raise DerError("an empty element")
    return found
