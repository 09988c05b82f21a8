"""Measures the health of a cluster. A broker that is silent costs one wait, and the facts that it alone knows
(`admin.look`).

The restore of a snapshot uses connections of its own: to the brokers that the store names, at the addresses there,
whether the other brokers know of them yet or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.admin.look import ANSWER_TIMEOUT_S
from penstock.admin.picture import Wish
from penstock.admin.queries.configs import Settings, configs_requests, read_settings
from penstock.admin.queries.offsets import log_ends_request
from penstock.admin.queries.offsets import read_log_ends as read_answer
from penstock.admin.state.cluster import MIN_IN_SYNC, LogEnd
from penstock.admin.state.configs import ConfigPlace
from penstock.admin.state.partitions import ReplicaKey
from penstock.admin.state.parts import Part
from penstock.client.addresses import Address
from penstock.client.versioned_client import VersionedClient
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.describe_configs import DescribeConfigsResponse
from penstock.protocol.messages.list_offsets import ListOffsetsResponse

_PARTS: Final = frozenset({Part.MOVES, Part.DIRECTORIES, Part.LOG_ENDS, Part.CONFIGS})
# Minimum in-sync replicas matter where a replica lags.
LOOK: Final = Wish(_PARTS, (MIN_IN_SYNC,), of_lagging=True)
# Before a broker is stopped they matter everywhere.
CAREFUL_LOOK: Final = Wish(_PARTS, (MIN_IN_SYNC,))

# Brokers that get requests at once. Each costs a thread for as long as it is silent.
_AT_ONCE = 64
Connect = Callable[[Address, float], VersionedClient]


def read_log_ends(
    connect: Connect, brokers: Mapping[int, Address], partitions: Iterable[tuple[str, int, tuple[int, ...]]]
) -> dict[ReplicaKey, LogEnd]:
    """The log end of each replica on one of the brokers. Replicas whose broker does not answer, or does not have them,
    are left out.
    """
    wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic, partition, replicas in partitions:
        for node_id in replicas:
            if node_id in brokers:
                wanted[node_id][topic].append(partition)
    if not wanted:
        return {}

    def ask(node_id: int) -> dict[ReplicaKey, LogEnd]:
        request = log_ends_request(wanted[node_id])
        try:
            with connect(brokers[node_id], ANSWER_TIMEOUT_S) as client:
                answer = client.request(request, ListOffsetsResponse, timeout_s=ANSWER_TIMEOUT_S)
        except (OSError, ApiError):
            return {}
        return read_answer(node_id, answer)

    with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), "penstock-health") as pool:
        return {key: end for ends in pool.map(ask, sorted(wanted)) for key, end in ends.items()}


def read_minimums(client: VersionedClient, topics: Sequence[str]) -> Settings:
    """Of topics that we may not see, nothing."""
    found: Settings = {}
    for request in configs_requests([ConfigPlace.topic(name) for name in topics], [MIN_IN_SYNC]):
        answer = client.request(request, DescribeConfigsResponse, timeout_s=ANSWER_TIMEOUT_S)
        found |= read_settings(answer).found
    return found
