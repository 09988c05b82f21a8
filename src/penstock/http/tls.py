"""TLS of an HTTP service: keys and certificates from its settings, read again when their files change.

A context never changes. Connections ask for the current context, so a renewed certificate is served from the next
connection on. A replacement that Kafka's rules refuse, or that is unreadable, changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping

from penstock.core.config.types import ConfigError
from penstock.http.files import LOOK_INTERVAL_S
from penstock.security.tls.contexts import ServerTls, load_server
from penstock.security.tls.der import DerError, read_certificate
from penstock.security.tls.distinguished_names import format_name
from penstock.security.tls.principal_rules import map_name
from penstock.security.tls.replacement import check_replacement
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stamps import Stamps, read_stamps

logger = logging.getLogger(__name__)


class ServedTls:
    """Load with `load`; run `watch` as a task."""

    def __init__(self, settings: TlsSettings, tls: ServerTls, stamps: Stamps) -> None:
        self._settings = settings
        self._tls = tls
        self._stamps = stamps

    @classmethod
    async def load(cls, properties: Mapping[str, str]) -> ServedTls:
        """Raises ConfigError."""
        settings = TlsSettings.of_properties(properties)
        stamps, tls = await asyncio.to_thread(lambda: (read_stamps(settings), load_server(settings)))
        return cls(settings, tls, stamps)

    @property
    def needs_certificates(self) -> bool:
        return self._settings.client_auth == "required"

    @property
    def takes_certificates(self) -> bool:
        """Whether clients may authenticate by a certificate; the others log in otherwise."""
        return self._settings.client_auth != "none"

    def context(self) -> ssl.SSLContext:
        return self._tls.context

    def name_client(self, der: bytes) -> str | None:
        """The principal of a certificate; None where it was revoked after the handshake, or has no name."""
        try:
            certificate = read_certificate(der)
            name = format_name(certificate.subject)
        except DerError:
            return None
        if (certificate.issuer_der, certificate.serial) in self._tls.revoked:
            return None
        user = map_name(self._tls.rules, name)
        return None if user is None else f"User:{user}"

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        stamps = await asyncio.to_thread(read_stamps, self._settings)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._tls = await asyncio.to_thread(self._load_replacement)
        except ConfigError as error:
            logger.error("what is in the files of TLS now cannot be served", extra={"error": error.message})
            return
        logger.info("serving what is in the files of TLS now")

    def _load_replacement(self) -> ServerTls:
        tls = load_server(self._settings)
        check_replacement(self._tls.certificate, tls.certificate, self._settings)
        return tls
