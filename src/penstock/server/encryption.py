"""TLS of one broker: what its listeners serve, what it shows to other brokers, and how both change while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.listeners import Endpoint
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.metrics.samples import Labels, Number
from penstock.security.audit.events import NO_AUDIT, Auditor
from penstock.server.net.listener import ConnectionLimits, TcpListener

if TYPE_CHECKING:  # a broker that speaks no TLS does without
    from penstock.server.net.tls_listener import TlsListener
    from penstock.server.net.tls_reloading import ServedTls, TlsReloading


class Encryption:
    """Make one with `load`, before the ports are taken: what is wrong with the certificates ends the start."""

    def __init__(self, served: Sequence[ServedTls]) -> None:
        self._served = {each.listener: each for each in served}
        self._listeners: dict[str, TlsListener] = {}
        self.reloading: TlsReloading | None = None

    @classmethod
    async def load(cls, config: BrokerConfig, *, is_alone: bool) -> Encryption:
        """Raises ConfigError."""
        served = []
        for endpoint in config.endpoints:
            if endpoint.is_encrypted:
                from penstock.server.net.tls_reloading import load_served

                is_inter_broker = not is_alone and endpoint.name == config.inter_broker_listener
                served.append(await asyncio.to_thread(load_served, config, endpoint, is_inter_broker=is_inter_broker))
        return cls(served)

    def listener(
        self, endpoint: Endpoint, bounds: ConnectionLimits, metrics: BrokerMetrics, clock: Clock
    ) -> TcpListener:
        served = self._served.get(endpoint.name)
        if served is None:
            return TcpListener(endpoint.name, bounds, metrics.sockets, clock)
        from penstock.server.net.tls_listener import TlsListener
        from penstock.server.net.tls_steps import StepThread

        has_login, steps = endpoint.has_login, StepThread()
        listener = TlsListener(
            endpoint.name, bounds, metrics.sockets, clock, served.tls, has_login=has_login, steps=steps
        )
        self._listeners[endpoint.name] = listener
        return listener

    def towards_brokers(self) -> ClientSecurity:
        """How this broker connects to others now."""
        for served in self._served.values():
            if served.client is not None:
                return ClientSecurity(tls=served.client)
        return PLAINTEXT

    def start(
        self, config: Callable[[], BrokerConfig], metrics: BrokerMetrics, clock: Clock, auditor: Auditor = NO_AUDIT
    ) -> None:
        """From here on changes are followed. `config` is the configuration in effect."""
        if not self._served:
            return
        for listener in self._listeners.values():
            listener.auditor = auditor
        from penstock.server.net.tls_reloading import TlsReloading

        for name, read in self._gauges(clock).items():
            metrics.register_gauge(name, read)
        self.reloading = TlsReloading(list(self._served.values()), self._use, config, metrics.sockets, clock)
        self.reloading.start()

    async def check(self, config: BrokerConfig) -> None:
        """Raises ConfigError for settings whose certificates could not be served."""
        if self.reloading is not None:
            await self.reloading.check(config)

    def settings_changed(self) -> None:
        if self.reloading is not None:
            self.reloading.hurry()

    async def close(self) -> None:
        if self.reloading is not None:
            await self.reloading.close()

    def _use(self, served: ServedTls) -> None:
        self._listeners[served.listener].serve(served.tls)

    def _gauges(self, clock: Clock) -> dict[str, Callable[[], list[tuple[Labels, Number]]]]:
        return {
            "penstock_tls_handshakes_under_way": lambda: [
                ((name,), listener.handshakes.under_way) for name, listener in self._listeners.items()
            ],
            "penstock_tls_handshakes_waiting": lambda: [
                ((name,), listener.handshakes.waiting) for name, listener in self._listeners.items()
            ],
            "penstock_tls_certificate_expiry_seconds": lambda: [
                ((name,), round(served.tls.certificate.valid_until.timestamp() - clock.now_ms() / 1000))
                for name, served in self._served.items()
            ],
        }
