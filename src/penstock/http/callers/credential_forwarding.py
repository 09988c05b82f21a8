"""Passes callers' credentials on to the brokers: a name and a password by SCRAM or PLAIN, a token by OAUTHBEARER. The
brokers decide on the login, and later on the caller's rights.

Rules:
- A login at a broker proves the credentials. Success is remembered for a short time under a keyed digest of the
  credentials, and no longer than the broker's lifetime of the login. The memory holds the credentials, for the caller's
  own connections; none of them is logged.
- One proof at a time for the same credentials: requests that come meanwhile wait for it.
- Running and waiting proofs are bounded, in all and for each address. Each has a limit of time. So an attacker who
  guesses passwords here reaches the brokers no faster, and a broker that hangs makes callers wait for seconds.
- A refusal by a broker is 401. No reachable broker, or too many waiting proofs, is 503: the credentials may be right.
- A broker does not reveal the name behind a token. It is read from the token, once a broker has accepted it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.client.connection.login import LoginRefusedError, UnservedMechanismError
from penstock.http.authentication import Caller, Credentials, LoginUnavailableError, read_basic
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.security.sasl.exchange import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, LoginError
from penstock.security.sasl.exchange import Credentials as BrokerCredentials
from penstock.security.sasl.plain import PlainCredentials
from penstock.security.sasl.scram import SCRAM_HASHES
from penstock.security.sasl.scram_client import ScramCredentials

BASIC, BEARER = "BASIC", "BEARER"
_CHALLENGES = {BASIC: 'Basic realm="penstock", charset="UTF-8"', BEARER: 'Bearer realm="penstock"'}
# RFC 6750, section 2.1. No other character may come into a message of OAUTHBEARER.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_SUBJECT = "sub"
_PARTS_OF_A_JWT = 3
_BUSY = "too many logins are under way, try again later"
_AWAY = "the brokers cannot be asked who this is, try again later"


Prove = Callable[[], Awaitable[Caller | None]]


class ForwardingLimits(NamedTuple):
    # The longest time for which a changed password still works here.
    remembered_s: float = 30.0
    most_remembered: int = 1_000
    # The number of running proofs. Each costs a broker a connection, and milliseconds of a core.
    most_under_way: int = 32
    most_per_address: int = 4
    # The number of running or waiting proofs. Clients of one proxy come from one address.
    most_waiting: int = 256
    most_waiting_per_address: int = 64
    # For the answer to the caller.
    proof_s: float = 8.0


def mechanisms_for_passwords(*, is_encrypted: bool) -> tuple[str, ...]:
    """The mechanisms to try, in this order, where the settings name none. PLAIN shows the password to eavesdroppers."""
    return (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN) if is_encrypted else (SCRAM_SHA_512, SCRAM_SHA_256)


class _Known(NamedTuple):
    caller: Caller
    until: float  # by the loop's clock


class ForwardedLogins:
    """An `Authenticator`. `methods` are BASIC and BEARER; `mechanisms` are tried for passwords, in this order, as far
    as the brokers serve them; `secret` is of this process alone.
    """

    def __init__(
        self,
        logins: BrokerLogins,
        secret: bytes,
        *,
        methods: Sequence[str] = (BASIC, BEARER),
        mechanisms: Sequence[str] | None = None,
        subject_claim: str = _SUBJECT,
        limits: ForwardingLimits | None = None,
    ) -> None:
        self._logins = logins
        self._secret = secret
        self._methods = frozenset(methods)
        self._mechanisms = tuple(mechanisms or mechanisms_for_passwords(is_encrypted=logins.is_encrypted))
        self._subject_claim = subject_claim
        self._limits = limits or ForwardingLimits()
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._proofs = _Proofs(self._limits)
        self._forgetting: asyncio.TimerHandle | None = None
        self.challenges = tuple(_CHALLENGES[method] for method in methods)

    async def authenticate(self, credentials: Credentials) -> Caller | None:
        """Raises LoginUnavailableError."""
        if credentials.scheme.upper() not in self._methods:
            return None
        key = hmac.digest(self._secret, f"{credentials.scheme} {credentials.value}".encode(), "sha256")
        known = self._known.get(key)
        if known is not None and known.until > asyncio.get_running_loop().time():
            self._known.move_to_end(key)
            return known.caller
        found = self._read(credentials)
        if found is None:
            return None
        principal, ways = found
        return await self._proofs.of(key, credentials.address, lambda: self._prove(key, principal, ways))

    def __len__(self) -> int:
        """The number of remembered logins."""
        return len(self._known)

    # ------------------------------------------------------------------------------------ what was shown

    def _read(self, credentials: Credentials) -> tuple[str, Mapping[str, BrokerCredentials]] | None:
        """The principal, if a broker accepts it, and the credentials for the broker, by mechanism."""
        basic = read_basic(credentials)
        try:
            if basic is not None:
                return f"User:{basic[0]}", {name: _by_password(name, *basic) for name in self._mechanisms}
        except LoginError:  # it cannot be encoded
            return None
        token = credentials.value
        subject = _subject(token, self._subject_claim) if credentials.scheme.upper() == BEARER else None
        if subject is None:
            return None
        from penstock.security.sasl.oauthbearer import OAuthBearerCredentials

        return f"User:{subject}", {OAUTHBEARER: OAuthBearerCredentials(lambda: token)}

    # ------------------------------------------------------------------------------------ proofs

    async def _prove(self, key: bytes, principal: str, ways: Mapping[str, BrokerCredentials]) -> Caller | None:
        served: Sequence[str] = tuple(ways)
        for mechanism, credentials in ways.items():
            if mechanism not in served:
                continue
            try:
                ends_at = await self._logins.prove(credentials)
            except UnservedMechanismError as error:
                served = error.mechanisms
            except LoginRefusedError:
                continue
            else:
                return self._remember(key, Caller(principal, key, self._logins.security(credentials)), ends_at)
        return None

    def _remember(self, key: bytes, caller: Caller, ends_at: float | None) -> Caller:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.remembered_s
        self._known[key] = _Known(caller, until if ends_at is None else min(until, ends_at))
        self._known.move_to_end(key)
        if len(self._known) > self._limits.most_remembered:
            self._known.popitem(last=False)
        if self._forgetting is None:
            self._forgetting = loop.call_later(self._limits.remembered_s, self._forget)
        return caller

    def _forget(self) -> None:
        """Secrets are kept no longer than they are useful."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for key in [key for key, known in self._known.items() if known.until <= now]:
            del self._known[key]
        is_empty = not self._known
        self._forgetting = None if is_empty else loop.call_later(self._limits.remembered_s, self._forget)


def _by_password(mechanism: str, name: str, password: str) -> BrokerCredentials:
    if mechanism == PLAIN:
        return PlainCredentials(name, password)
    return ScramCredentials(SCRAM_HASHES[mechanism], name, password)


def _subject(token: str, claim: str) -> str | None:
    """The name in a JWT, unverified: a broker verifies the same token."""
    parts = token.split(".")
    if len(parts) != _PARTS_OF_A_JWT or not _TOKEN.fullmatch(token):
        return None
    padding = "=" * (-len(parts[1]) % 4)
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + padding))
    except (binascii.Error, ValueError, RecursionError):
        return None
    subject = claims.get(claim) if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) and subject else None


class _Proofs:
    """The running proofs. A proof goes on when the request that began it is gone: others may wait for it."""

    def __init__(self, limits: ForwardingLimits) -> None:
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.most_under_way)
        self._turns_of: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()
        self._tasks: dict[bytes, asyncio.Task[Caller | None]] = {}

    async def of(self, key: bytes, address: str, prove: Prove) -> Caller | None:
        task = self._tasks.get(key)
        if task is None:
            if len(self._tasks) >= self._limits.most_waiting:
                raise LoginUnavailableError(_BUSY)
            if self._waiting[address] >= self._limits.most_waiting_per_address:
                raise LoginUnavailableError(_BUSY)
            task = asyncio.get_running_loop().create_task(self._run(address, prove), name="prove a login")
            self._tasks[key] = task
            self._waiting[address] += 1
            task.add_done_callback(lambda ended: self._end(key, address, ended))
        try:
            async with asyncio.timeout(self._limits.proof_s):
                return await asyncio.shield(task)
        except OSError:  # also where the time is up
            raise LoginUnavailableError(_AWAY) from None

    async def _run(self, address: str, prove: Prove) -> Caller | None:
        turns = self._turns_of.setdefault(address, asyncio.Semaphore(self._limits.most_per_address))
        async with turns, self._turns, asyncio.timeout(self._limits.proof_s):
            return await prove()

    def _end(self, key: bytes, address: str, task: asyncio.Task[Caller | None]) -> None:
        del self._tasks[key]
        self._waiting[address] -= 1
        if not self._waiting[address]:
            del self._waiting[address]
            self._turns_of.pop(address, None)
        if not task.cancelled():
            task.exception()  # the waiting requests have it; without them it does not matter
