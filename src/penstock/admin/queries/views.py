"""What one broker tells of the cluster, whether the others agree or not.

Where replicas lag, the moves are asked for as well: a replica that a move adds does not lag.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.admin.queries.moves import list_moves
from penstock.admin.queries.topics import read_brokers, read_controller, read_topics
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.parts import Failure, Part, Partial, PartRead
from penstock.client.addresses import Address, format_address
from penstock.client.routes.topology import metadata_request
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.metadata import MetadataResponse

if TYPE_CHECKING:
    from penstock.admin.look import Look

Views = dict[Address, ClusterState]


async def read_views(look: Look, addresses: Iterable[Address]) -> Partial[Views]:
    """All are asked side by side. One that does not answer is among the failures."""
    asked = list(addresses)
    answers = await asyncio.gather(*(_read_view(look, address) for address in asked), return_exceptions=True)
    found: Views = {}
    failures: list[Failure] = []
    for address, answer in zip(asked, answers, strict=True):
        if isinstance(answer, OSError | ApiError):
            failures.append(Failure.of(f"broker at {format_address(address)}", answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[address] = answer
    return Partial(found, tuple(failures))


async def _read_view(look: Look, address: Address) -> ClusterState:
    at_s = time.monotonic()
    metadata: MetadataResponse = await look.ask(address, metadata_request(None))
    parts = {Part.TOPICS: PartRead(at_s)}
    state = ClusterState(
        at_s,
        metadata.cluster_id or "",
        read_controller(metadata),
        read_brokers(metadata),
        read_topics(metadata),
        parts=parts,
    )
    if not state.under_replicated:
        return state
    try:
        moves = await list_moves(look, address)
    except (OSError, ApiError) as error:  # without a controller nobody knows what moves
        return replace(state, parts=parts | {Part.MOVES: PartRead(at_s, (Failure.of("moves", error),))})
    return replace(state, topics=read_topics(metadata, moves), parts=parts | {Part.MOVES: PartRead(at_s)})
