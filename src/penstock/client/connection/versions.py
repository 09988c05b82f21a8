"""Which version of each request goes to a broker: the highest that both sides know.

A broker is asked once, when a connection to it was opened. ApiVersions itself is sent at its highest version first. An
older broker answers UNSUPPORTED_VERSION in version 0 (KIP-511); all brokers serve version 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from penstock.client.connection.steps import SendStep, Steps
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Newest = Mapping[type[Message], int]

_SOFTWARE_VERSION = "1"
# The feature of a cluster of Apache Kafka without ZooKeeper.
_KRAFT_FEATURE = "metadata.version"
NO_LIMITS: Newest = MappingProxyType({})


class UnservedApiError(ApiError):
    """The broker serves no version of a request that is known here."""

    def __init__(self, api: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not serve {api} in a version known here")
        self.api = api


class Versions:
    """Of the requests to one broker. `newest` limits some of them."""

    __slots__ = ("_chosen", "_newest", "served")

    def __init__(self, served: ApiVersionsResponse, newest: Newest = NO_LIMITS) -> None:
        self.served = served
        self._newest = newest
        self._chosen: dict[type[Message], int] = {}  # the classes of requests that this program sends: a few dozen

    def choose(self, request: type[Message]) -> int:
        """UnservedApiError where there is none that both sides know."""
        version = self._chosen.get(request)
        if version is None:
            version = self._chosen[request] = choose_version(request, self.served, self._newest.get(request))
        return version


def choose_version(request: type[Message], served: ApiVersionsResponse, newest: int | None = None) -> int:
    """The highest version that both sides know, and not above `newest`; UnservedApiError when there is none."""
    wanted = request.MAX_VERSION if newest is None else min(request.MAX_VERSION, newest)
    for api in served.api_keys:
        version = min(api.max_version, wanted)
        if api.api_key == request.API_KEY and version >= max(api.min_version, request.MIN_VERSION):
            return version
    raise UnservedApiError(request.__name__.removesuffix("Request"))


def is_kraft(served: ApiVersionsResponse) -> bool:
    """Whether the broker names any broker as the controller, also one that hangs, and passes requests for the
    controller on by itself: Apache Kafka without ZooKeeper."""
    return any(each.name == _KRAFT_FEATURE for each in served.finalized_features)


def versions_request(software: str) -> ApiVersionsRequest:
    """`software` is what the broker's metrics and logs call this client: letters, digits, dots and dashes (KIP-511),
    where a client id may be anything."""
    return ApiVersionsRequest(client_software_name=software, client_software_version=_SOFTWARE_VERSION)


def ask_versions(software: str) -> Steps[ApiVersionsResponse]:
    """What the broker serves. ApiError where it does not tell."""
    request = versions_request(software)
    answer: ApiVersionsResponse = yield SendStep(request, request.MAX_VERSION)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        answer = yield SendStep(request, 0)
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code)
    return answer
