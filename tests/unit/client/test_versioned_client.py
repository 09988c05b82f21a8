"""The client of versioned requests against a small scripted broker on loopback."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.connection.versions import UnservedApiError, choose_version
from penstock.client.versioned_client import VersionedClient
from penstock.protocol.codec import encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.client.scripted_broker import frame, list_groups_answer, serving

Asked = list[tuple[int, int]]  # API key and version of each request


def serves(*apis: ApiVersion) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=list(apis))


def broker(asked: Asked, served: ApiVersionsResponse, newest_versions: int = 4) -> Callable[[bytes], bytes]:
    """Refuses ApiVersions above `newest_versions`, as an older broker does (KIP-511)."""

    def answer(request: bytes) -> bytes:
        header = decode_request_header(request)
        asked.append((header.api_key, header.api_version))
        if header.api_key != ApiVersionsRequest.API_KEY:
            return list_groups_answer(request)
        if header.api_version > newest_versions:
            body = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
        else:
            body = encode(served, header.api_version)
        return frame(encode_response_header(header.correlation_id, False) + body)

    return answer


LIST_GROUPS = ListGroupsRequest.API_KEY


def test_highest_common_version_is_chosen_when_both_sides_have_one() -> None:
    served = ApiVersion(api_key=DescribeLogDirsRequest.API_KEY, min_version=1, max_version=4)
    assert choose_version(DescribeLogDirsRequest, serves(served)) == 4
    served.max_version = 99
    assert choose_version(DescribeLogDirsRequest, serves(served)) == DescribeLogDirsRequest.MAX_VERSION


@pytest.mark.parametrize("served", [[], [ApiVersion(api_key=35, min_version=90, max_version=99)]])
def test_error_names_the_api_when_no_version_is_common(served: list[ApiVersion]) -> None:
    with pytest.raises(UnservedApiError, match="DescribeLogDirs") as raised:
        choose_version(DescribeLogDirsRequest, serves(*served))
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_request_goes_out_at_the_highest_common_version_when_the_broker_is_older() -> None:
    asked: Asked = []
    served = serves(ApiVersion(api_key=LIST_GROUPS, min_version=0, max_version=2))
    with (
        serving(broker(asked, served)) as port,
        VersionedClient.open(("127.0.0.1", port), client_id="me", software="tests") as client,
    ):
        assert client.request(ListGroupsRequest(), ListGroupsResponse).groups[0].group_id == "g"
    assert asked == [(ApiVersionsRequest.API_KEY, 4), (LIST_GROUPS, 2)]


def test_request_keeps_below_the_callers_limit_when_there_is_one() -> None:
    asked: Asked = []
    served = serves(ApiVersion(api_key=LIST_GROUPS, min_version=0, max_version=5))
    with (
        serving(broker(asked, served)) as port,
        VersionedClient.open(
            ("127.0.0.1", port), client_id="me", software="tests", newest={ListGroupsRequest: 1}
        ) as client,
    ):
        client.request(ListGroupsRequest(), ListGroupsResponse)
    assert asked[-1] == (LIST_GROUPS, 1)


def test_versions_are_asked_for_again_in_version_0_when_the_broker_refuses_the_newest() -> None:
    asked: Asked = []
    served = serves(ApiVersion(api_key=LIST_GROUPS, min_version=0, max_version=0))
    with (
        serving(broker(asked, served, newest_versions=0)) as port,
        VersionedClient.open(("127.0.0.1", port), client_id="me", software="tests") as client,
    ):
        client.request(ListGroupsRequest(), ListGroupsResponse)
    assert asked == [(ApiVersionsRequest.API_KEY, 4), (ApiVersionsRequest.API_KEY, 0), (LIST_GROUPS, 0)]


def test_answers_reach_their_requests_when_several_are_on_their_way() -> None:
    served = serves(ApiVersion(api_key=LIST_GROUPS, min_version=0, max_version=4))
    with (
        serving(broker([], served)) as port,
        VersionedClient.open(("127.0.0.1", port), client_id="me", software="tests") as client,
    ):
        first, second = client.send(ListGroupsRequest()), client.send(ListGroupsRequest())
        assert client.receive(second, ListGroupsResponse).groups[0].group_id == "g"
        assert client.receive(first, ListGroupsResponse).groups[0].group_id == "g"


def test_nothing_is_sent_when_the_broker_does_not_serve_the_request() -> None:
    asked: Asked = []
    with (
        serving(broker(asked, serves())) as port,
        VersionedClient.open(("127.0.0.1", port), client_id="me", software="tests") as client,
    ):
        with pytest.raises(UnservedApiError, match="ListGroups"):
            client.request(ListGroupsRequest(), ListGroupsResponse)
        assert client.is_open
    assert asked == [(ApiVersionsRequest.API_KEY, 4)]


def test_opening_fails_when_the_broker_does_not_tell_its_versions() -> None:
    refused = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with serving(broker([], refused)) as port, pytest.raises(ApiError) as raised:
        VersionedClient.open(("127.0.0.1", port), client_id="me", software="tests")
    assert raised.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
