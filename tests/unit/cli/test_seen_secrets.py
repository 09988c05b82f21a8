"""Secrets on a command line are seen by `ps`: whoever gives one is told where it can stand instead."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from penstock.cli.broker_options import StartOptions, StartOptionsError, start_properties
from penstock.cli.commands.spark_runs import given_settings
from penstock.cli.errors import UsageError
from penstock.cli.main import main
from penstock.cli.text import parse_settings
from penstock.core.words.secrets_seen import UnknownReferenceError, follow_references, secret_names

NOWHERE = "127.0.0.1:99999"  # no command gets as far as to ask anybody


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (f"registry start -b {NOWHERE} --set kafkastore.sasl.password=x", "--config or --command-config"),
        (f"topics list -b {NOWHERE} -X sasl.password=x", "--command-config"),
        ("pipeline describe nothing --set kafka.sasl.password=x", "--command-config"),
        ("sql --set spark.hadoop.fs.ftp.password=x --set a=1", "password=${file:PATH}'"),
        ("zookeeper start --ensemble a --set ssl.keyStore.password=x", None),
        ("zookeeper start --port 2 --ensemble a:1:2 --id 1 --set a --set ssl.keyStore.password=x", None),
        ("cluster start --zookeeper 127.0.0.1:99999 --set ssl.keystore.password=x", "--config"),
        ("cluster start --zookeeper 127.0.0.1:99999 --set num.partitions=1", None),
        (f"configs alter -b {NOWHERE} --broker 1 --set ssl.key.password=x", "'ssl.key.password=${env:NAME}'"),
        (f"cluster restart -b {NOWHERE} --data /nowhere --set ssl.key.password=x", "${file:PATH}"),
        (f"configs alter -b {NOWHERE} --broker 1 --set ssl.key.password=${{env:PATH}}", None),
        (f"pipeline describe nothing --set registry.url=http://ann:x@{NOWHERE}", "registry.url=${env:NAME}"),
    ],
)
def test_user_is_told_where_a_secret_can_stand_when_it_is_given_on_the_command_line(
    line: str, instead: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) != 0
    warned = [each for each in capsys.readouterr().err.splitlines() if each.startswith("Warning: ")]
    if instead is None:
        assert warned == []
    else:
        (warning,) = warned
        assert re.search(r"can see \S*(password|registry\.url) by `ps`", warning)
        assert instead in warning
        assert "=x" not in warning


@pytest.fixture
def _own_interrupts() -> Iterator[None]:
    """A service takes SIGINT for its loop, and its process ends with that."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_own_interrupts")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"schemas list --registry http://ann:x@{NOWHERE}", "basic.auth.user.info in the file"),
        (f"rest start --listen {NOWHERE} --registry http://ann:x@h", "into the file given to --config"),
        ("users add ann --password x --data-dir /nowhere", "--password by `ps`. Leave it out to be asked"),
    ],
)
def test_user_is_told_where_a_password_can_stand_when_an_option_shows_it(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) != 0
    (warning,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("Warning: ")]
    assert told in warning
    assert "ann:x" not in warning


def test_only_settings_that_hold_a_secret_are_named() -> None:
    secret = ["sasl.jaas.config=x", "basic.auth.user.info=a:b", "delegation.token.secret.key=x", "ssl.key.password=y"]
    secret += ["penstock.metrics.users=a:b", "penstock.http.tokens=a:b", "penstock.http.users=ann:x,bob:${env:BOB}"]
    secret += ["ssl.keystore.password=$${env:PASSWORD}", "ssl.key.pem=x", "delegation.token.master.key=x"]
    secret += ["sasl.oauthbearer.assertion.private.key.pem=x", "sasl.oauthbearer.assertion.private.key.passphrase=x"]
    secret += ["spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net=x", "spark.hadoop.fs.azure.account.key=x"]
    secret += ["spark.hadoop.fs.s3a.session.token=x", "fs.s3a.encryption.key=x", "fs.azure.sas.fixed.token.a=x"]
    secret += ["fs.azure.account.oauth2.refresh.token=x", "fs.gs.auth.service.account.private.key=x"]
    plain = [
        "ssl.key.password=",
        "ssl.keyStore.passwordPath=/x",
        "delegation.token.expiry.time.ms=1",
        "sasl.oauthbearer.token.endpoint.url=http://a",
        "penstock.first.users.file=/x",
        "fs.azure.account.keyprovider.a=org.example.Keys",
        "fs.azure.account.oauth2.refresh.token.endpoint=http://a",
        "fs.azure.sas.token.provider.type=org.example.Tokens",
        "sasl.oauthbearer.assertion.private.key.file=/x",
        "spark.io.encryption.keySizeBits=256",
        "ssl.certificate.pem=x",
        "basic.auth.credentials.source=USER_INFO",
        "num.partitions=1",
        "ssl.key.password=${env:PASSWORD}",
        "penstock.http.users=ann:${file:/run/ann}",
    ]
    secret += ["registry.url=https://ann:x@h:8081", "spark.sql.catalog.a.url=jdbc:postgresql://ann:x@h/db"]
    plain += ["registry.url=http://ann@h", "registry.url=http://h:8081/a@b:c", "registry.url=http://ann:${env:PW}@h"]
    assert secret_names([*secret, *plain]) == [text.partition("=")[0] for text in secret]


def of_broker(text: str) -> Mapping[str, str]:
    return start_properties(StartOptions(data="/d", set=(text,)), {})


@pytest.mark.parametrize(
    "settings_of", [lambda text: parse_settings([text]), lambda text: given_settings([text], None), of_broker]
)
def test_a_setting_is_taken_from_the_environment_or_a_file_when_it_names_one(
    settings_of: Callable[[str], Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGIN", "ann")
    (tmp_path / "password").write_text("s p=1\n")
    text = f"a.password=x:${{env:LOGIN}}:${{file:{tmp_path}/password}};"
    assert settings_of(text)["a.password"] == "x:ann:s p=1;"
    with pytest.raises((UsageError, StartOptionsError), match="a: the environment has no LOGOUT"):
        settings_of("a=${env:LOGOUT}")


def test_a_secret_means_the_same_when_it_goes_from_the_command_line_into_the_file(tmp_path: Path) -> None:
    assignments = ["kafka.sasl.password=x", "spark.hadoop.fs.s3a.secret.key=y", "registry.basic.auth.user.info=a:z"]
    file = tmp_path / "client.properties"
    file.write_text("\n".join(assignments))
    assert given_settings(None, file) == given_settings(assignments, None)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, words in (("away", "cannot read"), ("bytes", "no text in UTF-8"), (".", "cannot read")):
        with pytest.raises(UnknownReferenceError, match=words):
            follow_references(f"${{file:{tmp_path}/{name}}}")
    assert follow_references("${dir:/etc:passwd} ${x} $env:A") == "${dir:/etc:passwd} ${x} $env:A"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("$${env:LOGIN}", "${env:LOGIN}"),
        ("a$${file:/x}b${env:LOGIN}", "a${file:/x}bann"),
        ("$$${env:LOGIN}", "$ann"),
        ("$$$${env:LOGIN}", "$${env:LOGIN}"),
        ("$$ $x $${x}", "$$ $x $${x}"),
    ],
)
def test_a_reference_is_a_text_when_its_dollar_is_doubled(given: str, meant: str) -> None:
    assert follow_references(given, {"LOGIN": "ann"}) == meant
