"""Java clients log in over TLS with each mechanism, by passwords and by tokens of an issuer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apache_kafka.commands import ToolResult, run_command
from tests.clients.issuer import CLIENT_SECRET
from tests.clients.sasl_broker import MECHANISMS, PASSWORD, USER, SaslBroker, run_sasl_broker

_MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with run_sasl_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


def properties(broker: SaslBroker, mechanism: str, folder: Path, password: str = PASSWORD) -> str:
    """The path of a property file for Java clients."""
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.authority),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        module = f'oauthbearer.OAuthBearerLoginModule required clientId="{USER}" clientSecret="{CLIENT_SECRET}"'
        settings["sasl.oauthbearer.token.endpoint.url"] = broker.issuer.token_url
        settings["sasl.login.callback.handler.class"] = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
    else:
        name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        module = f'{name} required username="{USER}" password="{password}"'
    settings["sasl.jaas.config"] = f"{_MODULES}.{module};"
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def tool(
    broker: SaslBroker, name: str, config: str, *arguments: str, standard_input: str = "", must_succeed: bool = True
) -> ToolResult:
    return run_command(
        name,
        *("--bootstrap-server", broker.servers("SASL_SSL"), "--command-config", config),
        *arguments,
        standard_input=standard_input,
        must_succeed=must_succeed,
        java_options=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={broker.issuer.token_url}",),
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_lines_come_back_when_kafkas_console_clients_log_in(
    secured: SaslBroker, mechanism: str, tmp_path: Path
) -> None:
    config, topic = properties(secured, mechanism, tmp_path), f"java-{mechanism}"
    tool(secured, "kafka-console-producer", config, "--topic", topic, standard_input="a\nb\nc\n")
    reading = ("--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    assert tool(secured, "kafka-console-consumer", config, *reading).lines == ["a", "b", "c"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafkas_tool_ends_at_once_when_the_password_is_wrong(
    secured: SaslBroker, mechanism: str, tmp_path: Path
) -> None:
    """Java's clients retry everything but a refused login."""
    config = properties(secured, mechanism, tmp_path, "wrong")
    refused = tool(secured, "kafka-topics", config, "--list", must_succeed=False)
    assert refused.return_code == 1
    assert "SaslAuthenticationException" in refused.output
