"""How an executor finds the leader of a partition, against small scripted brokers on loopback."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines.source.brokers import Brokers
from penstock.protocol.codec import encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.client.scripted_broker import frame, serving

SERVED = ApiVersionsResponse(api_keys=[ApiVersion(api_key=MetadataRequest.API_KEY, max_version=4)])
HOST = "127.0.0.1"


def cluster(leaders: Mapping[int, int], ports: Mapping[int, int], error: int = 0) -> MetadataResponse:
    """Of topic t: the leaders by partition, and the ports by broker."""
    partitions = [MetadataResponsePartition(partition_index=index, leader_id=node) for index, node in leaders.items()]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=HOST, port=port) for node, port in ports.items()],
        topics=[MetadataResponseTopic(name="t", error_code=error, partitions=partitions)],
    )


def broker(tell: Callable[[], MetadataResponse | None]) -> Callable[[bytes], bytes | None]:
    """Ends the connection where there is nothing to tell."""

    def answer(request: bytes) -> bytes | None:
        header = decode_request_header(request)
        if header.api_key == ApiVersionsRequest.API_KEY:
            return frame(encode_response_header(header.correlation_id, False) + encode(SERVED, header.api_version))
        told = tell()
        if told is None:
            return None
        return frame(encode_response_header(header.correlation_id, False) + encode(told, header.api_version))

    return answer


def test_leaders_of_a_topic_are_asked_for_once_until_one_is_forgotten() -> None:
    asked: list[int] = []

    def tell() -> MetadataResponse:
        asked.append(1)
        return cluster({0: 1, 1: 1}, {1: port})

    with serving(broker(tell)) as port:
        brokers = Brokers(f"{HOST}:{port}", "me")
        leaders = {brokers.leader(TopicPartition("t", index)).address for index in (0, 1, 0)}
        assert leaders == {(HOST, port)}
        assert len(asked) == 1
        brokers.forget_leader(TopicPartition("t", 1))
        brokers.leader(TopicPartition("t", 0))
        assert len(asked) == 2
        brokers.close()


@pytest.mark.parametrize(
    ("partition", "error", "code"),
    [
        (7, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE),
        (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
    ids=["no such partition", "no leader", "no right"],
)
def test_answer_says_why_when_a_partition_has_no_leader_here(partition: int, error: ErrorCode, code: ErrorCode) -> None:
    with serving(broker(lambda: cluster({0: 1, 1: -1}, {1: port}, error))) as port:
        brokers = Brokers(f"{HOST}:{port}", "me")
        with pytest.raises(ApiError) as raised:
            brokers.leader(TopicPartition("t", partition))
        assert raised.value.code == code
        assert "t" in raised.value.message
        brokers.close()


def test_executor_asks_a_broker_that_it_knows_when_those_that_it_was_given_are_gone() -> None:
    partition = TopicPartition("t", 0)
    with serving(broker(lambda: cluster({0: 2}, {2: second})), connections=2) as second:
        with serving(broker(lambda: cluster({0: 2}, {1: first, 2: second}))) as first:
            brokers = Brokers(f"{HOST}:{first}", "me")
            brokers.drop(brokers.leader(partition))
            brokers.close()
        brokers.forget_leader(partition)
        assert brokers.leader(partition).address == (HOST, second)
        brokers.close()


def test_failures_name_every_broker_when_none_answers() -> None:
    with serving(broker(lambda: None)) as gone:
        brokers = Brokers(f"{HOST}:{gone}", "me")
        with pytest.raises(ConnectionError, match="closed the connection"):
            brokers.leader(TopicPartition("t", 0))
    with pytest.raises(ConnectionError, match=f"no broker answers at {HOST}:{gone}"):
        brokers.leader(TopicPartition("t", 0))
