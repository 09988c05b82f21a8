"""Transactions are not listed by a broker that would leave a condition out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.admin.queries.transactions import transactions_request
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.transactions import list_transactions
from penstock.cli.errors import CliError
from penstock.protocol.codec import encode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.unit.client.scripted_broker import frame, serving


def old_broker(port: Callable[[], int]) -> Callable[[bytes], bytes]:
    """ListTransactions is served in version 0 alone: it knows states and producers, and nothing else."""

    def answer(request: bytes) -> bytes:
        header = decode_request_header(request)
        message: Message
        if header.api_key == MetadataRequest.API_KEY:
            message = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port())])
        elif header.api_key == ListTransactionsRequest.API_KEY:
            message = ListTransactionsResponse(transaction_states=[TransactionState(transactional_id="young")])
        else:
            keys = [
                ApiVersion(api_key=MetadataRequest.API_KEY, max_version=1),
                ApiVersion(api_key=ListTransactionsRequest.API_KEY, max_version=0),
            ]
            message = ApiVersionsResponse(api_keys=keys)
        is_flexible = header.api_key == ListTransactionsRequest.API_KEY
        body = encode(message, header.api_version)
        return frame(encode_response_header(header.correlation_id, is_flexible) + body)

    return answer


def test_command_says_so_when_a_broker_does_not_know_a_condition() -> None:
    ports: list[int] = []
    with serving(old_broker(lambda: ports[0]), connections=6) as port:
        ports.append(port)
        cluster = ClusterClient(f"127.0.0.1:{port}")
        assert [each.transactional_id for each in list_transactions(cluster, transactions_request())] == ["young"]
        with pytest.raises(CliError, match=r"broker 1: .* by their age: brokers before Kafka 3\.8") as caught:
            list_transactions(cluster, transactions_request(open_for_ms=600_000))
        assert "api-versions" in caught.value.hint
        with pytest.raises(CliError, match=r"broker 1: .* by a pattern: brokers before Kafka 4\.1"):
            list_transactions(cluster, transactions_request(pattern="old.*"))
