"""A broker that would list other resources in place of policies is not asked for policies."""

from __future__ import annotations

import pytest

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import open_broker
from penstock.cli.access.security.policies import find_policies, read_policies
from penstock.cli.errors import CliError
from penstock.protocol.codec import encode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.unit.client.scripted_broker import frame, serving


def old_broker(request: bytes) -> bytes:
    """ListConfigResources is served in version 0 alone: it lists client metrics, and has no types."""
    header = decode_request_header(request)
    is_listing = header.api_key == ListConfigResourcesRequest.API_KEY
    message: Message
    if is_listing:
        message = ListConfigResourcesResponse(config_resources=[ConfigResource(resource_name="metrics")])
    else:
        served = ApiVersion(api_key=ListConfigResourcesRequest.API_KEY, max_version=0)
        message = ApiVersionsResponse(api_keys=[served])
    return frame(encode_response_header(header.correlation_id, is_listing) + encode(message, header.api_version))


def test_command_names_the_broker_when_it_lists_resources_without_their_types() -> None:
    with serving(old_broker) as port, pytest.raises(CliError) as caught:
        read_policies(ClusterClient(f"127.0.0.1:{port}"))
    assert caught.value.message == f"127.0.0.1:{port}: this broker has no policies"
    assert "Apache Kafka" in caught.value.hint


def test_access_is_explained_without_policies_when_a_broker_has_none() -> None:
    with serving(old_broker) as port, open_broker(ClusterClient(f"127.0.0.1:{port}")) as broker:
        assert find_policies(broker) is None
