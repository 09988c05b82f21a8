"""Brokers of any cluster in which nobody dies, as those see them who operate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from penstock.admin import connect
from penstock.client.addresses import Address
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from penstock.testing.history import Where

Response = TypeVar("Response", bound=Message)


class SteadyBrokers:
    """The controller stays the same, so it is asked for once."""

    def __init__(self, addresses: Mapping[int, Address], controller_id: int, timeout_s: float) -> None:
        self._addresses = addresses
        self._controller_id = controller_id
        self._admin = connect(list(addresses.values()), timeout_s=timeout_s)

    def close(self) -> None:
        self._admin.close()

    @property
    def node_ids(self) -> Sequence[int]:
        return list(self._addresses)

    def partitions(self) -> Mapping[Where, MetadataResponsePartition]:
        answer = self.ask(self.node_ids[0], MetadataRequest(topics=None), MetadataResponse)
        return {(topic.name or "", row.partition_index): row for topic in answer.topics for row in topic.partitions}

    def ask(self, node_id: int, request: Message, response: type[Response]) -> Response:
        answer: Response = self._admin.nodes.ask(self._addresses[node_id], request)
        return answer

    def ask_controller(self, request: Message, response: type[Response], timeout_s: float) -> Response:
        return self.ask(self._controller_id, request, response)
