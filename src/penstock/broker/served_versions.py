"""The APIs of a broker, as ApiVersions lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


class ServedVersions(NamedTuple):
    api_key: int
    min_version: int
    max_version: int
    is_for_brokers: bool = False  # clients need not know of it


def api_versions_response(served: Iterable[ServedVersions]) -> ApiVersionsResponse:
    """The APIs in the order of their keys."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.api_key, min_version=api.min_version, max_version=api.max_version)
            for api in sorted(served)
        ]
    )
