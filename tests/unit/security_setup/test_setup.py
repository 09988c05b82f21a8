"""What a secure start makes, and what it leaves as it was."""

from __future__ import annotations

import datetime
import json
import logging
import secrets
import stat
from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.properties import format_properties, read_properties
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.sasl.scram import SHA_512, decode_credential, make_credential
from penstock.security.sasl.scram_server import ScramServer, ScramUsers
from penstock.security_setup.places import MARK_FILE, security_directory, stays_secure
from penstock.security_setup.setup import ADMIN, BROKER, BrokerAddress, SecureSetup, SecureSetupError
from penstock.security_setup.single import secure_single
from penstock.server.stores import METADATA_FILE

NOW = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)


def prepared(path: Path, *hosts: str, now: datetime.datetime = NOW) -> SecureSetup:
    setup = SecureSetup(path)
    setup.prepare([BrokerAddress(1, hosts or ("127.0.0.1",))], now)
    return setup


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_everything_is_kept_when_a_secure_broker_starts_again(tmp_path: Path) -> None:
    prepared(tmp_path)
    before = contents(tmp_path)
    prepared(tmp_path, now=NOW + datetime.timedelta(days=1))
    assert contents(tmp_path) == before


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    setup = prepared(tmp_path / "security")
    assert stat.S_IMODE(setup.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in setup.path.rglob("*") if each.is_file()} == {0o600}


def test_brokers_get_a_password_for_zookeeper_and_stay_where_they_are_when_the_files_are_from_before(
    tmp_path: Path,
) -> None:
    setup = prepared(tmp_path)
    assert setup.zookeeper_root == "/penstock-cluster"
    own = ("penstock.zookeeper.digest", "zookeeper.root")
    before = {name: value for name, value in read_properties(setup.broker_file).items() if name not in own}
    setup.broker_file.write_text(format_properties(before))
    again = prepared(tmp_path)
    assert again.zookeeper_root == ""
    assert again.store_properties()["penstock.zookeeper.digest"].startswith(f"{BROKER}:")
    assert again.store_properties() == prepared(tmp_path).store_properties()
    assert before.items() <= read_properties(setup.broker_file).items()


def test_admin_can_log_in_with_the_client_file(tmp_path: Path) -> None:
    setup = prepared(tmp_path)
    users = json.loads((tmp_path / "users.json").read_text())
    assert set(users) == {ADMIN, BROKER}
    stored = decode_credential(users[ADMIN][SHA_512.mechanism])
    password = setup.client_config("localhost:9092")["sasl.password"]
    salted = SHA_512.salted_password(password, stored.salt, stored.iterations)
    assert make_credential(SHA_512, salted, stored.salt, stored.iterations) == stored
    assert password not in (tmp_path / "users.json").read_text()


def test_start_goes_on_when_the_one_before_ended_between_two_files(tmp_path: Path) -> None:
    whole = prepared(tmp_path)
    password = whole.client_config("")["sasl.password"]
    (tmp_path / "users.json").unlink()
    assert not whole.is_there
    again = prepared(tmp_path)
    assert again.is_there
    assert again.client_config("")["sasl.password"] == password


def test_broker_gets_a_new_certificate_when_its_address_changed_or_the_old_one_ends_soon(tmp_path: Path) -> None:
    certificates = CertificateDirectory(prepared(tmp_path).certificates_path, NOW)
    first = certificates.current()
    prepared(tmp_path, "kafka.example.com")
    (second,) = certificates.current()
    assert [second] != first
    assert "kafka.example.com" in second.hosts
    assert len([each for each in certificates.entries() if each.revoked_at is not None]) == 1
    prepared(tmp_path, "kafka.example.com", now=NOW + datetime.timedelta(days=80))
    (third,) = certificates.current()
    assert third.valid_until > second.valid_until


def test_broker_takes_the_settings(tmp_path: Path) -> None:
    _, properties = secure_single({"log.dirs": str(tmp_path / "data"), "listeners": "127.0.0.1:0", "node.id": "3"})
    config = BrokerConfig.parse(properties)
    assert [str(endpoint) for endpoint in config.endpoints] == ["SASL_SSL://127.0.0.1:0"]
    assert not config.warnings
    assert "password" not in repr(config)


def test_data_of_a_broker_that_is_not_secure_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / METADATA_FILE).touch()
    with pytest.raises(SecureSetupError, match="not secure"):
        secure_single({"log.dirs": str(tmp_path / "data")})
    assert not (tmp_path / "data.security").exists()


def test_several_listeners_are_refused_when_the_start_is_to_be_secure(tmp_path: Path) -> None:
    with pytest.raises(SecureSetupError, match="one listener"):
        secure_single({"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://:9092,SSL://:9093"})


def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SecureSetupError, match="file"):
        prepared(tmp_path / "file" / "security")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"listeners": "PLAINTEXT://:9092"}, True),
        ({"listeners": ":9092"}, True),
        ({"listeners": "PLAINTEXT://:9092,SASL_SSL://:9093"}, False),
        ({"listeners": "INSIDE://:9092", "listener.security.protocol.map": "INSIDE:SSL"}, False),
    ],
)
def test_data_stays_secure_when_the_settings_have_no_security_of_their_own(
    tmp_path: Path, settings: dict[str, str], expected: bool
) -> None:
    properties = {"log.dirs": f"{tmp_path}/data/, {tmp_path}/more", **settings}
    assert not stays_secure(properties)
    prepared(tmp_path / "data.security")
    assert stays_secure(properties) is expected


def test_secure_start_is_refused_when_the_broker_is_one_of_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(SecureSetupError, match="settings of its own"):
        secure_single({"log.dirs": str(tmp_path / "data"), "zookeeper.connect": "127.0.0.1:2181"})


def first_start(data: Path) -> SecureSetup:
    """As a broker that has made its store then."""
    setup, _ = secure_single({"log.dirs": str(data)})
    (data / METADATA_FILE).touch()
    return setup


def test_data_stays_secure_when_it_is_moved_without_the_directory_beside_it(tmp_path: Path) -> None:
    setup = first_start(tmp_path / "data")
    moved = (tmp_path / "data").rename(tmp_path / "moved")
    properties = {"log.dirs": str(moved)}
    assert stays_secure(properties)
    assert security_directory(properties) == str(setup.path)
    again, _ = secure_single(properties, is_asked=False)
    assert again.client_properties() == setup.client_properties()


def test_directory_beside_the_data_is_used_when_both_are_moved(tmp_path: Path) -> None:
    first_start(tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "moved")
    beside = (tmp_path / "data.security").rename(tmp_path / "moved.security")
    setup, _ = secure_single({"log.dirs": str(tmp_path / "moved")}, is_asked=False)
    assert setup.path == beside
    assert (tmp_path / "moved" / MARK_FILE).read_text() == f"{beside}\n"


def test_mark_and_data_directory_are_for_their_owner_alone(tmp_path: Path) -> None:
    first_start(tmp_path / "data")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / MARK_FILE).stat().st_mode) == 0o600


def test_users_are_written_again_when_their_file_is_lost(tmp_path: Path) -> None:
    setup = first_start(tmp_path / "data")
    before = setup.client_properties()
    (setup.path / "users.json").unlink()
    assert stays_secure({"log.dirs": str(tmp_path / "data")})
    secure_single({"log.dirs": str(tmp_path / "data")}, is_asked=False)
    assert setup.is_there
    assert setup.client_properties() == before


@pytest.mark.parametrize("lost", ["client.properties", "broker.properties", "certificates/ca.pem"])
def test_start_that_says_nothing_is_refused_when_a_file_is_lost(tmp_path: Path, lost: str) -> None:
    setup = first_start(tmp_path / "data")
    path = setup.path / lost
    path.rename(tmp_path / "elsewhere")
    assert stays_secure({"log.dirs": str(tmp_path / "data")})
    with pytest.raises(SecureSetupError, match=f"secure broker, but files are missing: {path}. .*--secure.*--insecure"):
        secure_single({"log.dirs": str(tmp_path / "data")}, is_asked=False)
    assert not path.exists()


@pytest.mark.parametrize("name", ["client.properties", "broker.properties"])
@pytest.mark.parametrize("text", ["garbage\n", "", "sasl.jaas.config=nonsense\n", "key=\\u12"])
def test_file_without_a_login_is_named(tmp_path: Path, name: str, text: str) -> None:
    setup = first_start(tmp_path / "data")
    (setup.path / name).write_text(text)
    with pytest.raises(SecureSetupError, match=f"{name}"):
        secure_single({"log.dirs": str(tmp_path / "data")})


def test_file_with_a_password_is_remarked_when_others_can_read_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    setup = prepared(tmp_path)
    assert not caplog.records
    setup.client_file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        prepared(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{setup.client_file} is open to others than its owner, and has secrets: chmod 600 closes it"
    ]


def test_nobody_learns_that_a_user_exists_from_how_its_login_begins(tmp_path: Path) -> None:
    """The users of a secure start had twice the iterations and another kind of salt than a made-up user."""
    nobody = ScramUsers(lambda user, hashing: None, lambda token, hashing: None)
    unknown = ScramServer(SHA_512, nobody, secrets.token_bytes, b"secret").fake("nobody")
    users = json.loads((prepared(tmp_path).path / "users.json").read_text())
    for each in (decode_credential(users[user][SHA_512.mechanism]) for user in (ADMIN, BROKER)):
        assert (each.iterations, len(each.salt)) == (unknown.iterations, len(unknown.salt))
        assert each.salt.isalnum()
        assert unknown.salt.isalnum()
