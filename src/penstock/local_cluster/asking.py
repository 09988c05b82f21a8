"""Questions to the brokers of a cluster, over kept connections. For several threads, one question at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.client.addresses import Address
from penstock.client.move_requests import read_moves
from penstock.client.own_work import settle_by_asking
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.client.sendings import Sendings
from penstock.client.versioned import VersionedClient
from penstock.local_cluster.state import ClusterState
from penstock.protocol.errors import ApiError
from penstock.protocol.message import Message
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

Response = TypeVar("Response", bound=Message)

_NAME = "penstock-cluster"
# A broker on this machine answers in milliseconds. One that is paused, or hangs, must not hold up what is shown.
ANSWER_TIMEOUT_S = 2.0


class BrokerClients:
    def __init__(self) -> None:
        # Asked for each new connection: certificates and authorities change while a cluster runs.
        self.load_security: Callable[[], ClientSecurity] = lambda: PLAINTEXT
        self._clients: dict[Address, VersionedClient] = {}
        self._turn = threading.Lock()

    def read_state(self, address: Address) -> ClusterState | None:
        """None when the broker does not answer."""
        try:
            answer = self.ask(address, MetadataRequest(topics=None), MetadataResponse)
        except (OSError, ApiError):
            return None
        state = ClusterState.of(answer)
        if not state.under_replicated:
            return state
        request = ListPartitionReassignmentsRequest(timeout_ms=int(ANSWER_TIMEOUT_S * 1000), topics=None)
        try:
            return ClusterState.of(answer, read_moves(self.ask(address, request, ListPartitionReassignmentsResponse)))
        except (OSError, ApiError):  # without a controller nobody knows what moves
            return state

    def ask(
        self,
        address: Address,
        request: Message,
        response: type[Response],
        timeout_s: float = ANSWER_TIMEOUT_S,
        sendings: Sendings | None = None,
    ) -> Response:
        """OSError when no answer comes. A kept connection may be that of a broker which was restarted: then the
        question is asked once more. A change that was sent twice, or before with these `sendings`, and finds its own
        work is answered as if it had been sent once.
        """
        sendings = Sendings() if sendings is None else sendings
        answer = self._ask(address, request, response, timeout_s, sendings)
        if sendings.may_be_done:
            self._settle(address, request, answer)
        return answer

    def _settle(self, address: Address, request: Message, answer: Message) -> None:
        steps = settle_by_asking(request, answer)
        with contextlib.suppress(StopIteration):
            question = next(steps)
            while True:
                question = steps.send(self._ask(address, question, question.RESPONSE, ANSWER_TIMEOUT_S, Sendings()))

    def _ask(
        self, address: Address, request: Message, response: type[Response], timeout_s: float, sendings: Sendings
    ) -> Response:
        with self._turn:
            kept = self._clients.pop(address, None)
            if kept is not None:
                try:
                    return self._ask_over(kept, request, response, timeout_s, sendings)
                except ConnectionError:
                    pass
            client = VersionedClient.open(
                address,
                client_id=_NAME,
                software=_NAME,
                timeout_s=ANSWER_TIMEOUT_S,
                security=self.load_security(),
                answer_timeout_s=ANSWER_TIMEOUT_S,
            )
            return self._ask_over(client, request, response, timeout_s, sendings)

    def _ask_over(
        self,
        client: VersionedClient,
        request: Message,
        response: type[Response],
        timeout_s: float,
        sendings: Sendings,
    ) -> Response:
        try:
            answer = client.request(request, response, timeout_s=timeout_s)
        except BaseException as error:
            if isinstance(error, OSError):
                sendings.lost()
            client.close()
            raise
        self._clients[client.address] = client
        return answer

    def close(self) -> None:
        with self._turn:
            while self._clients:
                self._clients.popitem()[1].close()
