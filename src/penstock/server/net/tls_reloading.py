"""Certificates that change while the broker runs: by a setting of the broker, or as files.

Rules:
- New connections get what is new. Connections that are open go on as they are, unless a revocation list now names the
  certificate that their client has shown: then they end.
- Files are looked at every few seconds, in a thread: a disk or a network file system may take its time. They are read
  again when one of them has changed in time, size or identity.
- The log warns 30 days and 7 days before a certificate in use ends, and when it has ended: once each.
- What cannot be used (a key that does not fit, another name than before) is refused: the listener goes on with what it
  has, the log says why, and a counter counts. The same files are not tried again until one of them changes.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.listeners import Endpoint
from penstock.core.metrics.counters import SocketMetrics
from penstock.security.tls.contexts import ServerTls, check_own_trust, load_client, load_server
from penstock.security.tls.replacement import check_replacement
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stamps import Stamps, read_stamps

logger = logging.getLogger("penstock.server.net.tls")

# Soon enough that nobody waits for it, and rare enough to cost nothing.
LOOK_INTERVAL_S = 5.0

# Days before the end of a certificate at which the log says so.
_WARNINGS_DAYS = (30, 7, 0)
_DAY_S = 86_400


@dataclass(slots=True)
class ServedTls:
    """What one listener serves, and where that came from."""

    listener: str
    is_inter_broker: bool
    settings: TlsSettings
    stamps: Stamps
    tls: ServerTls
    client: ssl.SSLContext | None  # towards other brokers
    warned_days: int | None = None  # the last warning of the log about the end of the certificate


def tls_settings(config: BrokerConfig, listener: str) -> TlsSettings:
    return TlsSettings.of(lambda name: config.listener_value(listener, name))


def load_served(config: BrokerConfig, endpoint: Endpoint, *, is_inter_broker: bool) -> ServedTls:
    """For a thread. Raises ConfigError."""
    settings = tls_settings(config, endpoint.name)
    stamps = read_stamps(settings)
    try:
        return ServedTls(endpoint.name, is_inter_broker, settings, stamps, *_load(settings, is_inter_broker))
    except ConfigError as error:
        raise ConfigError(f"listener {endpoint.name}: {error.message}", key=error.key) from error


def _load(settings: TlsSettings, is_inter_broker: bool) -> tuple[ServerTls, ssl.SSLContext | None]:
    tls = load_server(settings)
    if not is_inter_broker:
        return tls, None
    check_own_trust(settings, tls)
    return tls, load_client(settings)


def load_replacement(served: ServedTls, settings: TlsSettings) -> tuple[ServerTls, ssl.SSLContext | None]:
    """What takes the place of `served`. For a thread. Raises ConfigError where it must not."""
    tls, client = _load(settings, served.is_inter_broker)
    check_replacement(served.tls.certificate, tls.certificate, settings)
    return tls, client


class TlsReloading:
    """Start with `start`, end with `close`."""

    def __init__(
        self,
        served: Sequence[ServedTls],
        use: Callable[[ServedTls], None],
        config: Callable[[], BrokerConfig],
        metrics: SocketMetrics,
        clock: Clock,
    ) -> None:
        """`use` is told of what a listener is to serve from then on; it runs on the loop."""
        self.served = served
        self._use = use
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._hurry = asyncio.Event()
        self._one_look = asyncio.Lock()  # two at once would load the same files twice
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.served:
            self._looking = asyncio.create_task(self._run(), name="certificates")

    def hurry(self) -> None:
        """Settings of the broker have changed."""
        self._hurry.set()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.look()
            try:
                async with asyncio.timeout(LOOK_INTERVAL_S):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()

    async def check(self, config: BrokerConfig) -> None:
        """Raises ConfigError where what `config` names could not take the place of what is served."""
        for served in self.served:
            settings = tls_settings(config, served.listener)
            if settings != served.settings:
                await asyncio.to_thread(load_replacement, served, settings)

    async def look(self) -> None:
        """Replaces what has changed."""
        async with self._one_look:
            config = self._config()
            for served in self.served:
                settings = tls_settings(config, served.listener)
                stamps = await asyncio.to_thread(read_stamps, settings)
                if settings != served.settings or stamps != served.stamps:
                    await self._replace(served, settings, stamps)
                self._warn_of_end(served)

    def _warn_of_end(self, served: ServedTls) -> None:
        until = served.tls.certificate.valid_until
        left_days = (until.timestamp() - self._clock.now_ms() / 1000) / _DAY_S
        passed = [days for days in _WARNINGS_DAYS if left_days <= days]
        stage = min(passed) if passed else None
        if stage is not None and stage != served.warned_days:
            fields = {"listener": served.listener, "valid_until": until.isoformat(timespec="seconds")}
            if stage:
                logger.warning("a certificate ends soon: renew it", extra=fields)
            else:
                logger.warning("a certificate has ended, and clients refuse it", extra=fields)
        served.warned_days = stage

    async def _replace(self, served: ServedTls, settings: TlsSettings, stamps: Stamps) -> None:
        served.stamps = stamps
        try:
            tls, client = await asyncio.to_thread(load_replacement, served, settings)
        except ConfigError as error:
            served.settings = settings
            self._metrics.certificate_refusals += 1
            fields = {"listener": served.listener, "reason": error.message}
            logger.error("keeping the certificate in use: the new one is refused", extra=fields)
            return
        is_new = tls.certificate != served.tls.certificate
        served.tls, served.client, served.settings = tls, client, settings
        self._use(served)
        self._metrics.certificate_reloads += 1
        until = tls.certificate.valid_until.isoformat(timespec="seconds")
        fields = {"listener": served.listener, "valid_until": until}
        if is_new:
            logger.info("serving a new certificate", extra=fields)
        else:
            logger.info("serving the same certificate; what is trusted or revoked changed", extra=fields)
