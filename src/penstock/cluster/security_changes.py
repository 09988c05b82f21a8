"""Changes of the security data in the metadata: one entry for ACLs, users, quotas, tokens and policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import SECURITY_LEVEL
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store.security_nodes import added_paths
from penstock.core.limits import MAX_STORE_PATH_LENGTH
from penstock.protocol.errors import ApiError, ErrorCode

Item = TypeVar("Item")

_SHOWN_PATH = 100  # the characters of a path in an error: a client may have chosen its name


class Change(Protocol):
    def __call__(self, decide: Callable[[MetadataImage], Decision[Item]], /) -> Awaitable[tuple[Item, ...]]: ...


class SecurityChanges:
    def __init__(self, change: Change) -> None:
        """`change` is that of `Metadata`: it decides, writes and publishes."""
        self._change = change

    async def apply(
        self, decide: Callable[[SecurityImage], tuple[tuple[Item, ...], SecurityImage]]
    ) -> tuple[Item, ...]:
        """`decide` returns the results and the security after the change. It runs in a thread, maybe more than once.

        Raises ApiError: NOT_CONTROLLER, the errors of `decide`, or that the store cannot hold the change.
        """

        def decide_image(image: MetadataImage) -> Decision[Item]:
            results, security = decide(image.security)
            if security == image.security:
                return Decision(results, image)
            check_storable(image, security)
            return Decision(results, replace(image, security=security))

        return await self._change(decide_image)


def check_storable(image: MetadataImage, security: SecurityImage) -> None:
    """Raises ApiError where the store cannot hold this security instead of the image's. Sizes are checked where they
    are known: before the change is written.
    """
    if image.metadata_level < SECURITY_LEVEL:
        reason = "the cluster's metadata is too old to hold ACLs, users, quotas, tokens and policies"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{reason}: run `penstock cluster upgrade` first")
    for path in added_paths(image.security, security):
        if len(path) > MAX_STORE_PATH_LENGTH:
            reason = f"{path[:_SHOWN_PATH]} has {len(path)} characters, where {MAX_STORE_PATH_LENGTH} are the most"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
