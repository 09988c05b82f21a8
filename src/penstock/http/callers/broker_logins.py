"""Checks credentials by a login at the brokers. The connection is closed again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

from penstock.client.addresses import Address
from penstock.client.connection import Connection
from penstock.client.connection.login import LoginRefusedError
from penstock.client.security import ClientSecurity
from penstock.security.sasl.exchange import Credentials

_CLIENT_ID = "penstock-login"
# The limit for one broker: a login takes some milliseconds, under load perhaps a second. Then the next broker is tried.
_TIMEOUT_S = 3.0


class BrokerLogins:
    """`addresses` are of listeners with SASL, `tls` is their encryption."""

    def __init__(
        self, addresses: Sequence[Address], tls: ssl.SSLContext | None = None, *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        assert addresses, "somebody has to be asked"
        self._addresses = list(addresses)
        self._tls = tls
        self._timeout_s = timeout_s

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None

    def security(self, credentials: Credentials) -> ClientSecurity:
        return ClientSecurity(self._tls, credentials)

    async def prove(self, credentials: Credentials) -> float | None:
        """Asks one broker: the one that answered last, if it still does. Returns the end of the login by the loop's
        clock, None for a login without end. Raises LoginRefusedError, and OSError where no broker answers.
        """
        failure: OSError | None = None
        for address in [*self._addresses]:
            try:
                ends_at = await self._log_in(address, credentials)
            except LoginRefusedError:
                self._prefer(address)
                raise
            except OSError as error:
                failure = error
                continue
            self._prefer(address)
            return ends_at
        assert failure is not None, "there is an address"
        raise failure

    async def prove_everywhere(self, credentials: Credentials) -> None:
        """Asks all brokers with addresses known here; silent brokers do not count. Raises LoginRefusedError."""
        logins = (self._log_in(address, credentials) for address in self._addresses)
        for outcome in await asyncio.gather(*logins, return_exceptions=True):
            is_silent = isinstance(outcome, OSError) and not isinstance(outcome, LoginRefusedError)
            if isinstance(outcome, BaseException) and not is_silent:
                raise outcome

    def _prefer(self, address: Address) -> None:
        self._addresses.sort(key=lambda each: each != address)

    async def _log_in(self, address: Address, credentials: Credentials) -> float | None:
        async with asyncio.timeout(self._timeout_s):
            connection = await Connection.open(
                *address, client_id=_CLIENT_ID, timeout_s=self._timeout_s, security=self.security(credentials)
            )
        try:
            return connection.login_renewed_at
        finally:
            await connection.close()
