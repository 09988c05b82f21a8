"""ApiVersions, and what happens to requests that no broker understands."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from penstock.client.connection import ConnectionClosedError
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.metadata import MetadataRequest
from tests.clients.raw.wire import Wire, error_of

# API key -> (lowest, highest) version, as Kafka 4.3 advertises the APIs that this broker serves.
ADVERTISED = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    35: (1, 5),
    37: (0, 3),
    42: (0, 2),
    44: (0, 1),
    47: (0, 0),
    60: (0, 2),
    61: (0, 0),
    74: (0, 1),
    75: (0, 0),
}
VERSION_OF_TOMORROW = 99


def raw_frame(
    api_key: int, version: int, body: bytes = b"", *, flexible: bool = False, correlation_id: int = 7
) -> bytes:
    payload = encode_request_header(api_key, version, correlation_id, "raw", flexible) + body
    return struct.pack(">i", len(payload)) + payload


def ask_versions(wire: Wire, version: int, name: str = "raw", software_version: str = "1.0") -> ApiVersionsResponse:
    answer: ApiVersionsResponse = wire(
        ApiVersionsRequest(client_software_name=name, client_software_version=software_version), version
    )
    return answer


@pytest.mark.parametrize("version", range(5))
def test_same_ranges_are_advertised_when_asked_in_any_version(wire: Wire, version: int) -> None:
    answer = ask_versions(wire, version)
    assert answer.error_code == 0
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert {key: ranges.get(key) for key in ADVERTISED} == ADVERTISED


def test_keys_are_advertised_once_when_asked(wire: Wire) -> None:
    keys = [api.api_key for api in ask_versions(wire, 4).api_keys]
    assert len(set(keys)) == len(keys)


def test_answer_has_version_0_and_the_supported_range_when_the_version_is_unknown(wire: Wire) -> None:
    """A client newer than the broker must be able to read the refusal, and asks again (KIP-511)."""
    wire.connection.send_bytes(raw_frame(18, VERSION_OF_TOMORROW, b"\x02a\x02b\0", flexible=True, correlation_id=12))
    frame = wire.connection.receive_frame()
    correlation_id, position = decode_response_header(frame, flexible=False)
    answer = decode(ApiVersionsResponse, frame, 0, position)
    assert correlation_id == 12
    assert error_of(answer) == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]


def test_connection_still_serves_when_the_version_was_unknown(wire: Wire) -> None:
    wire.connection.send_bytes(raw_frame(18, VERSION_OF_TOMORROW, b"", flexible=True))
    wire.connection.receive_frame()
    assert ask_versions(wire, 0).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("", "1.0"),
        ("raw", ""),
        ("-raw", "1"),
        ("raw-", "1"),
        ("r aw", "1"),
        ("räw", "1"),
        ("raw", "1.0!"),
        ("raw\n", "1"),
    ],
)
def test_request_is_invalid_when_the_software_name_breaks_its_pattern(wire: Wire, name: str, version: str) -> None:
    answer = ask_versions(wire, 3, name, version)
    assert error_of(answer) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("name", "version"), [("a", "b"), ("apache-kafka-java", "4.3.1"), ("a.b-c", "0")])
def test_versions_are_answered_when_the_software_name_is_fine(wire: Wire, name: str, version: str) -> None:
    assert ask_versions(wire, 4, name, version).error_code == 0


def test_software_name_is_not_looked_at_when_the_version_has_none(wire: Wire) -> None:
    assert ask_versions(wire, 2, "", "").error_code == 0


def metadata_body(version: int) -> bytes:
    return encode(MetadataRequest(topics=[]), version)


@pytest.mark.parametrize(
    "frame",
    [
        raw_frame(999, 0),
        raw_frame(-1, 0),
        raw_frame(3, VERSION_OF_TOMORROW, metadata_body(13), flexible=True),
        raw_frame(3, -1, metadata_body(0)),
        raw_frame(0, 2, struct.pack(">hii", 1, 1000, 0)),
        raw_frame(1, 3, struct.pack(">iiiii", -1, 0, 0, 0, 0)),
        raw_frame(3, 1, b"\0\0"),
        raw_frame(3, 1, b"\x7f\xff\xff\xff"),
        raw_frame(3, 9, b"\xff\xff\xff\xff\x0f", flexible=True),
        struct.pack(">i", 2) + b"\0\x03",
        struct.pack(">i", 0),
        struct.pack(">i", -5),
        struct.pack(">i", 2**31 - 1),
        b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ],
    ids=[
        "unknown api",
        "negative api",
        "version too high",
        "negative version",
        "produce v2",
        "fetch v3",
        "truncated body",
        "array of 2 billion",
        "compact array of 4 billion",
        "half a header",
        "empty frame",
        "negative frame",
        "huge frame",
        "http",
    ],
)
def test_connection_is_closed_and_others_live_when_a_request_makes_no_sense(
    connect: Callable[[], Wire], frame: bytes
) -> None:
    other, wire = connect(), connect()
    wire.connection.send_bytes(frame)
    with pytest.raises(ConnectionClosedError):
        wire.connection.receive_frame(timeout_s=20)
    assert ask_versions(other, 4).error_code == 0


def test_requests_before_a_bad_one_are_answered_when_pipelined(wire: Wire) -> None:
    first = wire.connection.send(MetadataRequest(topics=[]), 12)
    wire.connection.send_bytes(raw_frame(3, 1, b"\0\0"))
    assert wire.connection.receive(first).brokers
    with pytest.raises(ConnectionClosedError):
        wire.connection.receive_frame(timeout_s=20)


def test_answers_come_in_order_when_requests_are_pipelined(wire: Wire) -> None:
    for correlation_id in (5, 3, 5, 9):
        wire.connection.send_bytes(raw_frame(18, 0, correlation_id=correlation_id))
    answered = [decode_response_header(wire.connection.receive_frame(), flexible=False)[0] for _ in range(4)]
    assert answered == [5, 3, 5, 9]
