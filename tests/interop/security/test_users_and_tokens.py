"""kafka-configs for users and kafka-delegation-tokens, against Apache Kafka and Penstock."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from apache_kafka.commands import ToolResult, run_command
from apache_kafka.jars import UNMEASURED_OPTIONS
from apache_kafka.node import ApacheKafkaNode
from penstock.client.addresses import parse_servers
from penstock.client.connection import Connection
from penstock.http.authentication import Credentials
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.http.callers.credential_forwarding import ForwardedLogins
from penstock.http.callers.delegation import DelegationTokens
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.security.sasl.plain import PlainCredentials
from penstock.testing.processes import BrokerProcess, find_free_port

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PATIENCE_S = 30.0
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN_JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b" '
    'user_broker="b" user_alice="a" user_bob="b";'
)


class Served(NamedTuple):
    """A listener without logins for the administration of users, and one with SASL."""

    plain: str
    sasl: str

    def configs(self, *arguments: str, must_succeed: bool = True) -> ToolResult:
        return run_command("kafka-configs", "--bootstrap-server", self.plain, *arguments, must_succeed=must_succeed)

    def tool(self, name: str, config: str, *arguments: str, must_succeed: bool = True) -> ToolResult:
        where = ("--bootstrap-server", self.sasl, "--command-config", config)
        return run_command(name, *where, *arguments, must_succeed=must_succeed)


def settings(plain: int, sasl: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "sasl.enabled.mechanisms": f"PLAIN,{','.join(MECHANISMS)}",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN_JAAS,
        "delegation.token.secret.key": "the brokers' own",
    }


@pytest.fixture(scope="module")
def kafka_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    plain, sasl, controller = find_free_port(), find_free_port(), find_free_port()
    own = settings(plain, sasl)
    brokers = own["listeners"]
    config = {
        **own,
        **{
            f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": f"{_SCRAM_MODULE} required;"
            for mechanism in MECHANISMS
        },
        "listeners": f"{brokers},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": brokers,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    with ApacheKafkaNode(
        tmp_path_factory.mktemp("kafka-users") / "node", config=config, port=plain, options=UNMEASURED_OPTIONS
    ):
        yield Served(f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}")


@pytest.fixture(scope="module")
def penstock_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    plain, sasl = find_free_port(), find_free_port()
    with BrokerProcess(tmp_path_factory.mktemp("penstock-users") / "data", config=settings(plain, sasl), port=plain):
        yield Served(f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}")


@pytest.fixture(scope="module", params=["kafka_with_users", "penstock_with_users"])
def served(request: pytest.FixtureRequest) -> Served:
    return cast("Served", request.getfixturevalue(request.param))


def login(folder: Path, mechanism: str, user: str, password: str, more: str = "") -> str:
    """The path of a property file."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path = folder / f"{user}-{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{user}" password="{password}"{more};\n'
    )
    return str(path)


def eventually(served: Served, config: str, is_in_force: Callable[[ToolResult], object]) -> ToolResult:
    """What the tool of topics says by this login once it is as it should be, or at last: Kafka's broker learns of users
    and tokens from its controller a little later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        result = served.tool("kafka-topics", config, "--list", must_succeed=False)
        if is_in_force(result) or time.monotonic() > deadline:
            return result


def is_let_in(result: ToolResult) -> bool:
    return result.return_code == 0


def is_refused(result: ToolResult) -> bool:
    return "SaslAuthenticationException" in result.output


def test_user_logs_in_as_long_as_the_configs_tool_says(served: Served, tmp_path: Path) -> None:
    carol = ("--entity-type", "users", "--entity-name", "carol")
    for credential in ("SCRAM-SHA-256=[iterations=8192,password=pass-1]", "SCRAM-SHA-512=[password=pass-2]"):
        served.configs("--alter", *carol, "--add-config", credential)
    served.configs("--alter", *carol, "--add-config", "producer_byte_rate=1000000")
    described = served.configs("--describe", *carol).stdout
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    assert "producer_byte_rate=1000000.0" in described
    everybody = served.configs("--describe", "--entity-type", "users").stdout
    assert "SCRAM credential configs for user-principal 'carol'" in everybody
    for mechanism, password in zip(MECHANISMS, ("pass-1", "pass-2"), strict=True):
        assert is_let_in(eventually(served, login(tmp_path, mechanism, "carol", password), is_let_in))
    for mechanism in MECHANISMS:
        served.configs("--alter", *carol, "--delete-config", mechanism)
    gone = login(tmp_path, "SCRAM-SHA-256", "carol", "pass-1")
    assert is_refused(eventually(served, gone, is_refused))
    assert "producer_byte_rate=1000000.0" in served.configs("--describe", *carol).stdout
    served.configs("--alter", *carol, "--delete-config", "producer_byte_rate")


def test_credential_is_refused_in_the_same_words_when_the_configs_tool_cannot_have_it(served: Served) -> None:
    dave = ("--entity-type", "users", "--entity-name", "dave")
    absent = served.configs("--alter", *dave, "--delete-config", "SCRAM-SHA-256", must_succeed=False)
    assert absent.return_code == 1
    assert "Attempt to delete a user credential that does not exist" in absent.output
    both = "SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]"
    twice = served.configs("--alter", *dave, "--add-config", both, must_succeed=False)
    assert "A user credential cannot be altered twice in the same request" in twice.output
    few = served.configs(
        "--alter", *dave, "--add-config", "SCRAM-SHA-256=[iterations=8,password=x]", must_succeed=False
    )
    assert few.return_code == 1
    assert "iterations" in few.output.lower()


def tokens(served: Served, config: str, *arguments: str, must_succeed: bool = True) -> ToolResult:
    return served.tool("kafka-delegation-tokens", config, *arguments, must_succeed=must_succeed)


def rows(result: ToolResult) -> list[list[str]]:
    """The lines under the heading of the tool's table: token, HMAC, owner, ..."""
    heading = next(number for number, line in enumerate(result.lines) if line.startswith("TOKENID"))
    return [line.split() for line in result.lines[heading + 1 :]]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_token_is_good_for_logins_until_its_tool_ends_it(served: Served, mechanism: str, tmp_path: Path) -> None:
    alice, bob = login(tmp_path, "PLAIN", "alice", "a"), login(tmp_path, "PLAIN", "bob", "b")
    created = tokens(served, alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    ((token_id, hmac, owner, *_),) = rows(created)
    assert owner == "User:alice"
    by_token = login(tmp_path, mechanism, token_id, hmac, ' tokenauth="true"')
    assert is_let_in(eventually(served, by_token, is_let_in))
    # Who has shown a token gets no other.
    refused = tokens(served, by_token, "--create", "--max-life-time-period", "-1", must_succeed=False)
    assert "DelegationTokenAuthorizationException" in refused.output or "not allowed" in refused.output

    mine = rows(tokens(served, alice, "--describe", "--owner-principal", "User:alice"))
    assert [token_id, owner] in [[row[0], row[2]] for row in mine]
    renewed = tokens(served, bob, "--renew", "--renew-time-period", "3600000", "--hmac", hmac)
    assert "Completed renew operation. New expiry date :" in renewed.stdout
    unknown = tokens(served, alice, "--renew", "--renew-time-period", "-1", "--hmac", "bm9uZQ==", must_succeed=False)
    assert "DelegationTokenNotFoundException" in unknown.output

    ended = tokens(served, alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation. New expiry date :" in ended.stdout
    assert is_refused(eventually(served, by_token, is_refused))
    left = rows(tokens(served, alice, "--describe", "--owner-principal", "User:alice"))
    assert token_id not in [row[0] for row in left]


def test_http_callers_are_told_apart_by_the_brokers_when_their_logins_are_passed_on(served: Served) -> None:
    """A password by SCRAM, as `penstock registry` and `penstock rest` pass it on."""
    erin = ("--entity-type", "users", "--entity-name", "erin")
    served.configs("--alter", *erin, "--add-config", "SCRAM-SHA-256=[password=pass-1]")

    def shown(password: str) -> Credentials:
        return Credentials.of([f"Basic {base64.b64encode(f'erin:{password}'.encode()).decode()}"], None)

    async def run() -> list[str | None]:
        passed = ForwardedLogins(BrokerLogins(parse_servers(served.sasl)), b"of this process")
        callers = [await passed.authenticate(shown(password)) for password in ("pass-1", "pass-2")]
        return [caller and caller.principal for caller in callers]

    assert asyncio.run(run()) == ["User:erin", None]
    served.configs("--alter", *erin, "--delete-config", "SCRAM-SHA-256")


def test_token_for_another_owner_is_made_used_and_ended_by_its_requester(served: Served) -> None:
    """KIP-373, as for HTTP callers with a certificate."""

    async def run() -> list[str]:
        logins = BrokerLogins(parse_servers(served.sasl))
        own = logins.security(PlainCredentials("alice", "a"))
        async with await Connection.open(*parse_servers(served.sasl)[0], security=own) as connection:

            async def ask(message: Message) -> Any:
                return await connection.request(message, message.MAX_VERSION)

            async def owners() -> list[str]:
                answer = await ask(DescribeDelegationTokenRequest(owners=None))
                return [token.principal_name for token in answer.tokens]

            delegated = await DelegationTokens(ask, logins).delegate("User:scraper")
            assert delegated.security.credentials is not None
            await logins.prove(delegated.security.credentials)
            during = await owners()
            await delegated.end()
            async with asyncio.timeout(30):  # Kafka's broker learns of it from its controller a little later
                while await owners():  # noqa: ASYNC110 - only asking shows it
                    await asyncio.sleep(0.05)
            return during

    assert asyncio.run(run()) == ["scraper"]
