from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from penstock.client.connection import BlockingConnection, LoginRefusedError
from penstock.client.security import ClientSecurity
from penstock.cluster.levels import FIRST_LEVEL, SECURITY_LEVEL, SNAPSHOT_LEVEL, LevelRange
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.config.broker_config import BrokerConfig
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.security.sasl.exchange import Credentials
from penstock.security.sasl.plain import PlainCredentials
from penstock.security.sasl.scram import SHA_256, SHA_512
from penstock.security.sasl.scram_client import ScramCredentials
from penstock.server.stores import METADATA_FILE, make_data_directory
from penstock.testing.processes import BrokerProcess, find_free_port
from tests.clients.cli_runner import Cli
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker
from tests.clients.support import librdkafka_can_log_in


@pytest.fixture
def cli(sasl_broker: SaslBroker) -> Cli:
    return Cli("{}:{}".format(*sasl_broker.plain_address))


def can_log_in(address: tuple[str, int], credentials: Credentials) -> bool:
    try:
        with BlockingConnection(*address, security=ClientSecurity(credentials=credentials)) as connection:
            return bool(connection.request(MetadataRequest(topics=[]), 12).brokers)
    except LoginRefusedError:
        return False


def test_user_logs_in_when_added_and_no_longer_when_removed(cli: Cli, sasl_broker: SaslBroker) -> None:
    name, address = "carol, = of Ünïx*", sasl_broker.sasl_address
    added = cli.run("users", "add", name, "--password-file", "-", "--json", stdin=b"first\n")
    assert added.json["user"] == name
    assert "first" not in added.text
    assert can_log_in(address, ScramCredentials(SHA_256, name, "first"))
    assert can_log_in(address, ScramCredentials(SHA_512, name, "first"))
    assert cli.try_run("users", "add", name, "--password", "x").code == 1
    changed = cli.run(
        "users", "password", name, "--password", "second", "-m", "SCRAM-SHA-256", "--iterations", "8192", "--json"
    )
    assert changed.json == {"user": name, "mechanisms": [{"name": "SCRAM-SHA-256", "iterations": 8192}]}
    assert can_log_in(address, ScramCredentials(SHA_256, name, "second"))
    assert not can_log_in(address, ScramCredentials(SHA_256, name, "first"))
    (listed,) = (each for each in cli.run("users", "list", "--json").json if each["user"] == name)
    assert listed["mechanisms"] == [
        {"name": "SCRAM-SHA-256", "iterations": 8192},
        {"name": "SCRAM-SHA-512", "iterations": 4096},
    ]
    removed = cli.run("users", "remove", name, "--yes", "-m", "SCRAM-SHA-512", "--json").json
    assert removed == {
        "user": name,
        "removed": ["SCRAM-SHA-512"],
        "mechanisms": ["SCRAM-SHA-256"],
        "acls": None,
        "tokens": None,
    }
    assert can_log_in(address, ScramCredentials(SHA_256, name, "second"))
    cli.run("users", "remove", name, "--yes")
    assert not can_log_in(address, ScramCredentials(SHA_256, name, "second"))
    assert cli.try_run("users", "remove", name, "--yes").code == 1


def test_password_is_asked_for_in_a_way_that_scripts_can_use_when_none_is_given(cli: Cli) -> None:
    result = cli.try_run("users", "add", "dave")
    assert result.code == 2
    assert "--password-file" in result.err


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_commands_log_in_when_they_get_a_property_file(sasl_broker: SaslBroker, tmp_path: Path, mechanism: str) -> None:
    """`users list` asks by our own connection, `topics list` by librdkafka."""
    file, cli = tmp_path / "client.properties", Cli(sasl_broker.bootstrap_servers)
    lines = ["security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}"]
    if mechanism == "OAUTHBEARER":
        (tmp_path / "token").write_text(sasl_broker.token())
        lines += [
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token').as_uri()}",
        ]
    else:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines += [
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\",
            f'  username="{USER}" password="{PASSWORD}";',
        ]
    file.write_text("\n".join(lines))
    assert USER in cli.run("users", "list", "--command-config", str(file)).text
    if mechanism != "OAUTHBEARER":  # librdkafka reads no token from a file
        cli.run("topics", "list", "--command-config", str(file))


def test_command_says_so_when_the_login_is_refused(sasl_broker: SaslBroker, tmp_path: Path) -> None:
    file, cli = tmp_path / "client.properties", Cli(sasl_broker.bootstrap_servers)
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=alice\nsasl.password=geheim\n"
    )
    result = cli.try_run("users", "list", "--command-config", str(file))
    assert result.code == 3
    assert "Authentication failed" in result.err
    assert "geheim" not in result.err


def test_first_users_log_in_when_added_before_the_first_start(tmp_path: Path) -> None:
    data, file, cli = tmp_path / "data", tmp_path / "users.json", Cli("127.0.0.1:1")
    for name, password in (("admin", "first"), ("other", "second"), ("other", "changed")):
        cli.run("users", "add", name, "--password", password, "--first-users-file", str(file))
    assert "first" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    both = ("--first-users-file", str(file), "--data-dir", str(data))
    assert cli.try_run("users", "add", "late", "--password", "x", *both).code == 2
    assert log_in_at_a_start(data, {"penstock.first.users.file": str(file)}) == ["admin first", "other changed"]


@pytest.mark.parametrize("level", [SECURITY_LEVEL, SNAPSHOT_LEVEL])
def test_user_logs_in_when_the_password_was_set_while_no_broker_ran(tmp_path: Path, level: int) -> None:
    """From level 3 on brokers do not load Kafka's nodes: a password that was written there alone opened nothing."""
    data, cli = tmp_path / "data", Cli("127.0.0.1:1")
    asyncio.run(found(data, level))
    cli.run("users", "add", "admin", "--password", "first", "--data-dir", str(data))
    cli.run("users", "add", "other", "--password", "second", "--data-dir", str(data))
    assert log_in_at_a_start(data, {}) == ["admin first", "other second"]
    cli.run("users", "add", "other", "--password", "changed", "--data-dir", str(data))
    assert log_in_at_a_start(data, {}) == ["admin first", "other changed"]


def test_no_data_is_made_when_a_user_is_added_to_a_directory_without_any(tmp_path: Path) -> None:
    for missing in (tmp_path / "typo", tmp_path):
        added = Cli("127.0.0.1:1").try_run(
            "users", "add", "a", "--password-file", "-", "--data-dir", str(missing), stdin=b"x"
        )
        assert added.code == 2
        assert f"Error: {missing} has no data of a broker" in added.err
    assert list(tmp_path.iterdir()) == []


async def found(data: Path, level: int) -> None:
    """The store of a single node, as a version that knew no higher level made it."""
    make_data_directory(data)
    store = await SqliteStore.open(data / METADATA_FILE)
    await Metadata.load(store, BrokerConfig.parse({}), levels=LevelRange(FIRST_LEVEL, level))
    await store.close()


def log_in_at_a_start(data: Path, settings: dict[str, str]) -> list[str]:
    """Those who can, with a broker that is started for that. It has the data to itself meanwhile."""
    port = find_free_port()
    listener = {"listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    with BrokerProcess(data, port=port, config={**listener, **settings}):
        address, cli = ("127.0.0.1", port), Cli("127.0.0.1:1")
        assert not can_log_in(address, PlainCredentials("admin", "first"))
        assert cli.try_run("users", "add", "late", "--password", "x", "--data-dir", str(data)).code == 1
        client = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
        }
        tried = [("admin", "first"), ("other", "second"), ("other", "changed"), ("late", "x")]
        return [
            f"{user} {password}"
            for user, password in tried
            if librdkafka_can_log_in({**client, "sasl.username": user, "sasl.password": password})
        ]


def test_token_is_created_renewed_and_ended_when_asked_for(sasl_broker: SaslBroker, tmp_path: Path) -> None:
    file, cli = tmp_path / "client.properties", Cli(sasl_broker.bootstrap_servers)
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
    )
    config = ("--command-config", str(file))
    token = cli.run("tokens", "create", "--renewer", "User:bob", "--lifetime", "5h", "--json", *config).json
    credentials = ScramCredentials(SHA_256, token["token"], token["hmac"], is_token=True)
    assert can_log_in(sasl_broker.sasl_address, credentials)
    renewed = cli.run("tokens", "renew", token["token"], "--period", "1h", "--json", *config).json
    assert renewed["token"] == token["token"]
    (listed,) = (each for each in cli.run("tokens", "list", "--json", *config).json if each["token"] == token["token"])
    assert (listed["owner"], listed["renewers"]) == (f"User:{USER}", ["User:bob"])
    assert token["hmac"] not in cli.run("tokens", "list", *config).text
    assert not cli.run("tokens", "expire", token["token"], "--period", "1h", "--json", *config).json["ended"]
    assert "has ended" in cli.run("tokens", "expire", token["token"], *config).err
    assert not can_log_in(sasl_broker.sasl_address, credentials)
    assert cli.try_run("tokens", "renew", token["token"], *config).code == 1


def test_command_logs_in_by_a_token_when_the_property_file_has_one(sasl_broker: SaslBroker, tmp_path: Path) -> None:
    file, by_token = tmp_path / "client.properties", tmp_path / "token.properties"
    cli = Cli(sasl_broker.bootstrap_servers)
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
    )
    token = cli.run("tokens", "create", "--json", "--command-config", str(file)).json
    by_token.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token["token"]}" password="{token["hmac"]}" tokenauth="true";\n'
    )
    assert USER in cli.run("users", "list", "--command-config", str(by_token)).text
    refused = cli.try_run("topics", "list", "--command-config", str(by_token))
    assert refused.code == 2
    assert "librdkafka does not log in with tokens" in refused.err
    assert token["hmac"] not in refused.err
