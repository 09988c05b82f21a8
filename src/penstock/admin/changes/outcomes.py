"""Changes that are spread over brokers: each has its outcome, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from penstock.admin.state.parts import describe_silence
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message

# What a broker is given for a change, as Java's administration client gives it.
TIMEOUT_MS = 30_000


class NodeAsker(Protocol):
    """The parts of `client.brokers.Brokers` that this module uses."""

    async def ask_node(self, node_id: int, message: Message, *, retry: bool = False) -> Any: ...


Request = TypeVar("Request", bound=Message)


async def ask_each_node(
    brokers: NodeAsker, requests: Mapping[int, Iterable[Request]]
) -> list[tuple[int, Request, Any]]:
    """Every request with its broker, and with its answer or the ApiError that stands for it: what one broker leaves
    undone does not hide what the others have done. Brokers are asked side by side, each for one thing after the other.
    The requests have to be idempotent.
    """

    async def ask(node_id: int, own: Iterable[Request]) -> list[tuple[int, Request, Any]]:
        return [
            (node_id, request, await answer_or_error(brokers.ask_node(node_id, request, retry=True))) for request in own
        ]

    found = await asyncio.gather(*(ask(node_id, own) for node_id, own in requests.items()))
    return [each for own in found for each in own]


async def answer_or_error(asking: Awaitable[Any]) -> Any:
    try:
        return await asking
    except ApiError as error:
        return error
    except OSError as error:
        return ApiError(ErrorCode.NETWORK_EXCEPTION, describe_silence(error))
