"""Which broker is asked for what the controller decides."""

from __future__ import annotations

import socket

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.cluster_now import try_list_moves
from penstock.client.move_requests import Moving
from penstock.core.types import TopicPartition
from penstock.protocol.codec import encode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.unit.client.scripted_broker import Script, frame, serving

_ANY, _SILENT = 1, 2


def kraft_broker(silent_port: int) -> Script:
    """Names a broker that hangs as the controller, and passes the request for moves on."""
    partition = OngoingPartitionReassignment(
        partition_index=0, replicas=[1, 3, 2], adding_replicas=[3], removing_replicas=[2]
    )

    def answer(request: bytes) -> bytes:
        header = decode_request_header(request)
        message: Message
        if header.api_key == MetadataRequest.API_KEY:
            node = MetadataResponseBroker(node_id=_SILENT, host="127.0.0.1", port=silent_port)
            message = MetadataResponse(brokers=[node], controller_id=_SILENT)
        elif header.api_key == ListPartitionReassignmentsRequest.API_KEY:
            topics = [OngoingTopicReassignment(name="orders", partitions=[partition])]
            message = ListPartitionReassignmentsResponse(topics=topics)
        else:
            keys = [
                ApiVersion(api_key=MetadataRequest.API_KEY, max_version=1),
                ApiVersion(api_key=ListPartitionReassignmentsRequest.API_KEY, max_version=0),
            ]
            feature = FinalizedFeatureKey(name="metadata.version", max_version_level=25, min_version_level=25)
            message = ApiVersionsResponse(api_keys=keys, finalized_features=[feature])
        is_flexible = header.api_key == ListPartitionReassignmentsRequest.API_KEY
        body = encode(message, header.api_version)
        return frame(encode_response_header(header.correlation_id, is_flexible) + body)

    return answer


def test_moves_are_listed_when_apache_kafka_names_a_broker_that_hangs_as_the_controller() -> None:
    """`topics describe` was silent about moves by chance: a cluster in KRaft mode names any broker."""
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,  # takes connections, and answers nothing
        serving(kraft_broker(hanging.getsockname()[1]), connections=2) as port,
    ):
        moves = try_list_moves(ClusterClient(f"127.0.0.1:{port}"))
    assert moves == {TopicPartition("orders", 0): Moving((1, 3, 2), (3,), (2,))}
