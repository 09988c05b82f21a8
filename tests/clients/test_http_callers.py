"""Callers of an HTTP service before a real broker: however they log in, the broker's ACLs decide by who they are."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from penstock.client.connection import BlockingConnection, Connection
from penstock.client.security import ClientSecurity
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.http.authentication import AnyOf, CertificateAuthenticator
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.http.callers.clients import CallerClients
from penstock.http.callers.credential_forwarding import ForwardedLogins
from penstock.http.callers.delegation import DelegationTokens
from penstock.http.limits import HttpLimits
from penstock.http.routes import Route
from penstock.http.server import HttpSecurity, HttpServer
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.security.acls.types import Operation, ResourceType
from penstock.security.sasl.scram import SHA_512
from penstock.security.sasl.scram_client import ScramCredentials
from penstock.security.tls.der import read_certificate
from tests.clients.issuer import Issuer
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker, run_sasl_broker
from tests.unit.http.talking import Listening, client_context, make_papers, server_context

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SERVICE, SERVICE_PASSWORD = "service", "the service's own"
SCRAPER = "scraper"  # has a certificate, and no password
_ALLOW, _LITERAL = 3, 3


class OneBroker:
    """A client that knows one broker, for one kind of request."""

    def __init__(self, broker: SaslBroker, security: ClientSecurity) -> None:
        self._address = broker.tls_address if security.tls else broker.sasl_address
        self._security = security
        self._connection: Connection | None = None

    async def ask(self, message: Message) -> Any:
        if self._connection is None:
            self._connection = await Connection.open(*self._address, security=self._security)
        return await self._connection.request(message, message.MAX_VERSION)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """A topic for each user that may see it. The service may make tokens for the scraper alone."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with run_sasl_broker(tmp_path_factory.mktemp("guarded"), config) as broker:
        broker.add_user(SERVICE, SERVICE_PASSWORD)
        broker.add_user("carol", PASSWORD, ("SCRAM-SHA-256",))
        with BlockingConnection(*broker.plain_address) as connection:
            names = (USER, "carol", SCRAPER)
            topics = [CreatableTopic(name=f"of-{name}", num_partitions=1, replication_factor=1) for name in names]
            connection.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
            rules = [rule(ResourceType.TOPIC, f"of-{name}", f"User:{name}", Operation.DESCRIBE) for name in names]
            rules.append(rule(ResourceType.USER, f"User:{SCRAPER}", f"User:{SERVICE}", Operation.CREATE_TOKENS))
            answer = connection.request(CreateAclsRequest(creations=rules), 3)
            assert not any(result.error_code for result in answer.results)
        yield broker


def rule(kind: ResourceType, name: str, principal: str, operation: Operation) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=_ALLOW,
    )


class Service(NamedTuple):
    listening: Listening
    clients: CallerClients[OneBroker]


@asynccontextmanager
async def service(broker: SaslBroker, tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Service]:
    """`tls` is of the HTTP listener. The brokers are reached with TLS."""
    trusted = ssl.create_default_context(cafile=broker.authority)
    logins = BrokerLogins([broker.tls_address], trusted)
    own = OneBroker(broker, logins.security(ScramCredentials(SHA_512, SERVICE, SERVICE_PASSWORD)))
    tokens = DelegationTokens(own.ask, logins)
    clients = CallerClients(lambda security: OneBroker(broker, security), own._security, is_shared=False, tokens=tokens)

    async def look(request: Request) -> Response:
        from starlette.responses import JSONResponse

        client = await clients.of(request)
        topics = [MetadataRequestTopic(name=request.path_params["topic"])]
        answer = await client.ask(MetadataRequest(topics=topics))
        found = ErrorCode(answer.topics[0].error_code).name
        return JSONResponse({"principal": request.state.principal, "found": found})

    certificates = CertificateAuthenticator(lambda der: f"User:{common_name(der)}")
    authenticator = AnyOf((ForwardedLogins(logins, b"of this process", **options), certificates))
    security = HttpSecurity(None if tls is None else lambda: tls, authenticator)
    server = HttpServer("test", (Route("/{topic}", look),), security, limits=HttpLimits(refusal_delay_s=0))
    await server.start("127.0.0.1", 0)
    try:
        yield Service(Listening(server, server._metrics), clients)
    finally:
        await server.stop()
        await clients.close()
        await own.close()


def common_name(der: bytes) -> str:
    from penstock.security.tls.distinguished_names import format_name

    return format_name(read_certificate(der).subject).removeprefix("CN=")


def with_service(broker: SaslBroker, use: Callable[[Service], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with service(broker, **options) as running:
            await use(running)

    asyncio.run(run())


def basic(user: str, password: str = PASSWORD) -> str:
    return f"authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


async def look(running: Service, path: str, *headers: str, tls: ssl.SSLContext | None = None) -> tuple[Any, ...]:
    answer = await running.listening.get(path, *headers, tls=tls)
    return (answer.status, *json.loads(answer.body).values()) if answer.status == 200 else (answer.status,)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_acls_decide_by_the_caller_when_a_password_is_passed_on(guarded: SaslBroker, mechanism: str) -> None:
    async def use(running: Service) -> None:
        assert await look(running, f"/of-{USER}", basic(USER)) == (200, f"User:{USER}", "NONE")
        for other in ("/of-carol", f"/of-{SCRAPER}"):
            seen = await look(running, other, basic(USER))
            assert seen == (200, f"User:{USER}", "TOPIC_AUTHORIZATION_FAILED")
        assert len(running.clients) == 1
        for wrong in (basic(USER, "wrong"), basic("nobody"), basic(USER, "")):
            assert await look(running, f"/of-{USER}", wrong) == (401,)

    with_service(guarded, use, mechanisms=(mechanism,))


def test_another_mechanism_is_found_when_a_user_has_no_password_for_the_first(guarded: SaslBroker) -> None:
    async def use(running: Service) -> None:
        assert await look(running, "/of-carol", basic("carol")) == (200, "User:carol", "NONE")
        assert await look(running, "/of-carol", basic(USER)) == (200, f"User:{USER}", "TOPIC_AUTHORIZATION_FAILED")

    with_service(guarded, use)


def test_acls_decide_by_the_caller_when_a_token_is_passed_on(guarded: SaslBroker) -> None:
    async def use(running: Service) -> None:
        good = f"authorization: Bearer {guarded.token()}"
        assert await look(running, f"/of-{USER}", good) == (200, f"User:{USER}", "NONE")
        assert await look(running, "/of-carol", good) == (200, f"User:{USER}", "TOPIC_AUTHORIZATION_FAILED")
        stranger = Issuer()
        for token in (guarded.token(exp=1), stranger.token(), guarded.token(aud="another"), "x.y.z"):
            assert await look(running, f"/of-{USER}", f"authorization: Bearer {token}") == (401,)

    with_service(guarded, use)


def tokens_of(broker: SaslBroker) -> list[str]:
    """The owners of all tokens, as the service sees them."""
    credentials = ScramCredentials(SHA_512, SERVICE, SERVICE_PASSWORD)
    with BlockingConnection(*broker.sasl_address, security=ClientSecurity(credentials=credentials)) as connection:
        answer = connection.request(DescribeDelegationTokenRequest(owners=None), 3)
        return [token.principal_name for token in answer.tokens]


def test_acls_decide_by_the_owner_of_a_token_when_the_caller_has_a_certificate(
    guarded: SaslBroker, tmp_path: Path
) -> None:
    server, client = make_papers(tmp_path, "server"), make_papers(tmp_path, SCRAPER)

    async def use(running: Service) -> None:
        tls = client_context(server, client)
        assert await look(running, f"/of-{SCRAPER}", tls=tls) == (200, f"User:{SCRAPER}", "NONE")
        seen = await look(running, f"/of-{USER}", tls=tls)
        assert seen == (200, f"User:{SCRAPER}", "TOPIC_AUTHORIZATION_FAILED")
        assert await asyncio.to_thread(tokens_of, guarded) == [SCRAPER]
        # What the header says goes before the certificate.
        assert await look(running, f"/of-{USER}", basic(USER), tls=tls) == (200, f"User:{USER}", "NONE")

    with_service(guarded, use, tls=server_context(server, client))
    assert tokens_of(guarded) == []


def test_caller_gets_no_client_when_the_service_may_make_no_token_for_it(guarded: SaslBroker, tmp_path: Path) -> None:
    server, client = make_papers(tmp_path, "server"), make_papers(tmp_path, "another")

    async def use(running: Service) -> None:
        assert await look(running, f"/of-{SCRAPER}", tls=client_context(server, client)) == (500,)
        assert len(running.clients) == 0

    with_service(guarded, use, tls=server_context(server, client))


def test_connections_go_on_when_a_token_is_replaced(guarded: SaslBroker) -> None:
    async def run() -> None:
        logins = BrokerLogins([guarded.sasl_address])
        own = OneBroker(guarded, logins.security(ScramCredentials(SHA_512, SERVICE, SERVICE_PASSWORD)))
        made: list[Message] = []

        async def ask(message: Message) -> Any:
            made.append(message)
            return await own.ask(message)

        delegated = await DelegationTokens(ask, logins, life_ms=1_500).delegate(f"User:{SCRAPER}")
        client = OneBroker(guarded, delegated.security)
        end = asyncio.get_running_loop().time() + 2  # longer than the first token lives
        while asyncio.get_running_loop().time() < end:
            await client.ask(MetadataRequest(topics=[]))
            await asyncio.sleep(0.1)
        assert len(made) >= 2  # tokens
        await client.close()
        await delegated.end()
        with pytest.raises(ApiError):
            await DelegationTokens(ask, logins).delegate(f"User:{USER}")
        await own.close()

    asyncio.run(run())
