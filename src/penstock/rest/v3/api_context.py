"""The context that all endpoints of v3 share: the proxy, the cluster's id, limits of callers, the address for links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.brokers import Brokers
from penstock.core.clock import Clock, SystemClock
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.clients import CallerBrokers
from penstock.rest.proxy import Proxy
from penstock.rest.v3.calls import not_found
from penstock.rest.v3.rates import Rates, caller_of

if TYPE_CHECKING:
    from starlette.requests import Request


class ApiContext:
    def __init__(self, proxy: Proxy, clock: Clock | None = None) -> None:
        self.proxy = proxy
        self.clock = clock or SystemClock()
        self.rates = Rates(proxy.settings, self.clock)
        self.caller_of = caller_of
        self._cluster_id = ""  # never changes once it is known

    async def enter(self, request: Request) -> tuple[CallerBrokers, str]:
        """The caller's brokers and the cluster's id. Raises RestError where the path names another cluster, or where
        the caller exceeds a limit; LoginRefusedError and OSError.
        """
        self.rates.spend_request(caller_of(request))
        brokers = await self.proxy.clients.of(request)
        cluster_id = self._cluster_id or await self._ask_cluster_id(brokers)
        asked = request.path_params.get("cluster_id", cluster_id)
        if asked != cluster_id:
            raise not_found(f"Cluster {asked} cannot be found.")
        return brokers, cluster_id

    async def _ask_cluster_id(self, brokers: Brokers) -> str:
        answer = await brokers.metadata([])
        if not answer.cluster_id:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the brokers do not tell the id of their cluster")
        self._cluster_id = answer.cluster_id
        return answer.cluster_id

    def base_of(self, request: Request) -> str:
        """Scheme, host and port for links."""
        return self.proxy.base_url(request)
