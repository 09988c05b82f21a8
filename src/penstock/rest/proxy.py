"""The context of every endpoint of the proxy: the clients of callers, payloads, limits, settings."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from penstock.rest.clients import Access, CallerBrokers, Clients
from penstock.rest.consumers.instances import Instances
from penstock.rest.consumers.owners import Owners
from penstock.rest.formats.payloads import Payloads
from penstock.rest.inflight_bytes import InflightBytes
from penstock.rest.rights import TopicRight
from penstock.rest.settings import RestSettings


@dataclass(frozen=True, slots=True)
class Proxy:
    settings: RestSettings
    access: Access
    payloads: Payloads
    inflight_bytes: InflightBytes
    instances: Instances
    owners: Owners

    @property
    def clients(self) -> Clients:
        """`await clients.of(request)` is the client for the caller's credentials, until the request is over."""
        return self.access.clients

    def right_of(self, brokers: CallerBrokers, topic: str) -> TopicRight:
        return TopicRight(brokers, topic, may_choose_subject=not self.settings["penstock.http.broker.logins"])

    def base_url(self, request: Request) -> str:
        """The address of this proxy for callers, without a trailing slash."""
        advertised = self.settings.text("advertised.listeners").partition(",")[0].strip().rstrip("/")
        if advertised:
            return advertised
        host, port = self.settings.text("host.name"), request.scope["server"][1]
        if host:
            return f"{request.url.scheme}://{host}:{port}"
        return f"{request.url.scheme}://{request.url.netloc}"

    async def close(self) -> None:
        await self.payloads.close()
        await self.access.clients.close()
        await self.access.own.close()
