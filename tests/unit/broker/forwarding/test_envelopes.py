from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.forwarding.envelopes import decode_address, decode_principal, encode_address, encode_principal
from penstock.broker.session import Principal
from penstock.protocol.errors import ApiError, ErrorCode

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(NAMES, NAMES)
def test_principal_comes_out_as_it_went_in(kind: str, name: str) -> None:
    principal = Principal(kind, name)
    assert decode_principal(encode_principal(principal)) == principal


def test_principal_has_the_bytes_that_kafka_writes() -> None:
    assert encode_principal(Principal("User", "alice")) == b"\0\0" + b"\5User" + b"\6alice" + b"\0" + b"\0"


@pytest.mark.parametrize("data", [None, b"", b"\0", b"\0\1\5User\2a\0\0", b"\0\0\5Us"])
def test_principal_is_refused_when_its_bytes_are_wrong(data: bytes | None) -> None:
    with pytest.raises(ApiError) as caught:
        decode_principal(data)
    assert caught.value.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize("host", ["10.1.2.3", "::1", "2001:db8::7"])
def test_address_comes_out_as_it_went_in(host: str) -> None:
    assert decode_address(encode_address(host)) == host


def test_address_is_that_of_nobody_when_the_client_has_none() -> None:
    assert decode_address(encode_address("unknown")) == "0.0.0.0"
    assert decode_address(encode_address("fe80::1%eth0")) == "fe80::1"


def test_address_is_refused_when_its_size_is_wrong() -> None:
    with pytest.raises(ApiError):
        decode_address(b"abc")
