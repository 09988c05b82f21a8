"""The client's principal and address in an Envelope, beside the request (KIP-590)."""

from __future__ import annotations

import ipaddress
import struct

from penstock.broker.session import Principal
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.default_principal_data import DefaultPrincipalData

_VERSION = struct.Struct(">h")
# The address of a client with an unknown address, such as a client on a socket of the machine.
_NO_ADDRESS = bytes(4)


def encode_principal(principal: Principal) -> bytes:
    """Encodes as Kafka's DefaultKafkaPrincipalBuilder: the version before the data."""
    version = DefaultPrincipalData.MAX_VERSION
    return _VERSION.pack(version) + encode(DefaultPrincipalData(type=principal.type, name=principal.name), version)


def decode_principal(data: bytes | None) -> Principal:
    """Raises ApiError(PRINCIPAL_DESERIALIZATION_FAILURE)."""
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    if data is None or len(data) < _VERSION.size:
        raise ApiError(code, "the envelope names no principal")
    (version,) = _VERSION.unpack_from(data)
    if not DefaultPrincipalData.MIN_VERSION <= version <= DefaultPrincipalData.MAX_VERSION:
        raise ApiError(code, f"the principal is in version {version}")
    try:
        decoded = decode(DefaultPrincipalData, data, version, _VERSION.size)
    except ApiError as error:
        raise ApiError(code, error.message) from error
    return Principal(decoded.type, decoded.name)


def encode_address(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _NO_ADDRESS


def decode_address(data: bytes) -> str:
    """Raises ApiError(INVALID_REQUEST)."""
    try:
        return str(ipaddress.ip_address(data))
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the client's address has {len(data)} bytes") from error
