"""What every HTTP service reads from its settings, and how its process ends."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from penstock.core.config.types import ConfigError
from penstock.http.authentication import Credentials, as_caller
from penstock.http.server import HttpSecurity
from penstock.http.service_process import Listener, ListenerSecurity, parse_listener
from penstock.http.settings import HTTP_KEYS, Settings


def settings(**given: str) -> Settings:
    return Settings.parse(HTTP_KEYS, {name.replace("__", "."): text for name, text in given.items()})


def read_security(read: Settings, scheme: str = "http") -> HttpSecurity:
    return asyncio.run(ListenerSecurity.read(read, scheme)).http


def basic(name: str, password: str) -> Credentials:
    return Credentials.of([f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"], None)


def test_a_key_that_nobody_knows_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"'authentification.method': did you mean 'authentication.method'\?"):
        Settings.parse(HTTP_KEYS, {"authentification.method": "BASIC"})


def test_names_under_a_prefix_are_passed_on_unread() -> None:
    read = Settings.parse(HTTP_KEYS, {"kafkastore.anything": "1"}, ["kafkastore."])
    assert read.under("kafkastore.") == {"anything": "1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Listener("http", "127.0.0.1", 8081)),
        ("127.0.0.1:0", Listener("http", "127.0.0.1", 0)),
        ("0.0.0.0", Listener("http", "0.0.0.0", 8081)),  # what an operator may write
        ("https://[::1]:9000", Listener("https", "::1", 9000)),
        ("http://registry.example:8081/", Listener("http", "registry.example", 8081)),
    ],
)
def test_a_listener_is_read_as_people_write_it(text: str, expected: Listener) -> None:
    assert parse_listener("registry", text) == expected


@pytest.mark.parametrize("text", ["ftp://a:1", "a:70000", "a:b", "http://a:1,http://b:2"])
def test_a_listener_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        parse_listener("registry", text)


def test_users_of_the_settings_log_in_by_their_passwords() -> None:
    read = settings(authentication__method="BASIC", penstock__http__users="alice:secret")
    known = read_security(read).authenticator
    assert known is not None
    caller = as_caller(asyncio.run(known.authenticate(basic("alice", "secret"))))
    assert caller is not None
    assert caller.principal == "User:alice"
    assert asyncio.run(known.authenticate(basic("alice", "wrong"))) is None


def test_a_method_without_anybody_who_could_log_in_is_refused() -> None:
    with pytest.raises(ConfigError, match="nobody could log in"):
        read_security(settings(authentication__method="BASIC"))


def test_a_setting_with_secrets_is_refused_without_showing_them() -> None:
    with pytest.raises(ConfigError) as refused:
        read_security(settings(penstock__http__users="alice-hunter2"))
    assert "hunter2" not in refused.value.message


def test_tls_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        read_security(settings(), "https")


PROCESS = """
import asyncio, sys
from penstock.http.service_process import ServiceError, run_service
from penstock.http.server import HttpSecurity
from penstock.http.settings import HTTP_KEYS, Settings

class Service:
    url = "http://127.0.0.1:1"
    async def start(self): pass
    async def wait_ready(self):
        if sys.argv[1] == "fails":
            raise ServiceError("the topic has two partitions")
        if sys.argv[1] == "waits":
            print("waiting", flush=True)
            await asyncio.Event().wait()
        return "no broker answers yet" if sys.argv[1] == "waits for brokers" else ""
    async def stop(self): print("stopped", flush=True)

sys.exit(run_service("example", Settings.parse(HTTP_KEYS, {}), Service))
"""


def start(how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("serves", "penstock example is ready at http://127.0.0.1:1\n"),
        ("waits", "waiting\n"),
        ("waits for brokers", "penstock example listens at http://127.0.0.1:1, but no broker answers yet\n"),
    ],
)
def test_a_service_stops_cleanly_when_it_is_told_to(how: str, line: str) -> None:
    process = start(how)
    assert process.stdout is not None
    assert process.stdout.readline() == line
    os.kill(process.pid, signal.SIGTERM)
    rest, _ = process.communicate()
    assert (rest, process.returncode) == ("stopped\n", 0)


def test_a_service_that_can_never_serve_says_why_and_ends() -> None:
    process = start("fails")
    output, errors = process.communicate()
    assert (output, process.returncode) == ("stopped\n", 1)
    assert "the example cannot start: the topic has two partitions" in errors
