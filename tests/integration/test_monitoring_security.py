"""`/metrics` and `/healthz` of a broker's process behind TLS and logins, with curl as the client that is not ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.processes import BrokerProcess, find_free_port
from tests.clients.cli_runner import Cli
from tests.clients.support import eventually
from tests.servers import give_up_without
from tests.unit.http.talking import Papers, make_papers

SECRETS = ("hunter2", "t0ken-of-the-scraper", "digest-s3cret", "dora's : password")


class Guarded:
    def __init__(self, port: int, server: Papers, client: Papers) -> None:
        self.port = port
        self._server = server
        self._client = client

    def curl(self, path: str, *options: str, certificate: bool = True) -> tuple[int, str]:
        """The status and the body; 0 where there was no answer."""
        own = ("--cert", str(self._client.certificate)) if certificate else ()
        url = f"https://127.0.0.1:{self.port}{path}"
        command = ["curl", "-sS", "-m", "20", "--cacert", str(self._server.authority), *own, *options]
        done = subprocess.run([*command, "-w", "\n%{http_code}", url], capture_output=True, text=True, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body or done.stderr


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    if shutil.which("curl") is None:
        give_up_without("curl", "http")
    directory = tmp_path_factory.mktemp("monitoring")
    server, client = make_papers(directory, "server"), make_papers(directory, "scraper")
    port = find_free_port()
    config = {
        "penstock.metrics.listen": f"0.0.0.0:{port}",
        "penstock.metrics.security.protocol": "SSL",
        "listener.name.metrics.ssl.keystore.type": "PEM",
        "listener.name.metrics.ssl.keystore.location": str(server.certificate),
        "penstock.metrics.users": f"alice:{SECRETS[0]}",
        "penstock.metrics.tokens": f"scraper:{SECRETS[1]}",
        "penstock.zookeeper.digest": f"user:{SECRETS[2]}",
        "penstock.metrics.cluster.users": "true",
        "penstock.audit.file": "audit.jsonl",
    }
    with BrokerProcess(directory / "data", config=config) as process:
        Cli(process.bootstrap_servers).run("users", "add", "dora", "--password", SECRETS[3])
        running = Guarded(port, server, client)
        eventually(lambda: running.curl("/livez")[0] == 200, "the metrics")  # clients are served first
        yield running
    trail = (directory / "data" / "audit.jsonl").read_text()
    assert '"methodName":"HttpRequest"' in trail
    assert not [secret for secret in SECRETS if secret in trail]


@pytest.mark.parametrize("path", ["/", "/metrics", "/nothing", "/metrics/", "//metrics", "/./metrics"])
def test_stranger_gets_401_when_there_is_no_authorization_header(guarded: Guarded, path: str) -> None:
    status, text = guarded.curl(path, "--path-as-is")
    assert status == 401, text


@pytest.mark.parametrize(
    "options",
    [("-u", "alice:wrong"), ("-u", "bob:hunter2"), ("-H", "authorization: Bearer x"), ("-u", "dora:hunter2")],
)
def test_stranger_gets_401_when_the_secret_is_wrong(guarded: Guarded, options: tuple[str, ...]) -> None:
    assert guarded.curl("/metrics", *options)[0] == 401


@pytest.mark.parametrize(
    "options",
    [("-u", "alice:hunter2"), ("-H", f"authorization: Bearer {SECRETS[1]}"), ("-u", f"dora:{SECRETS[3]}")],
)
def test_metrics_are_shown_without_secrets_when_the_login_is_right(guarded: Guarded, options: tuple[str, ...]) -> None:
    status, page = guarded.curl("/metrics", *options)
    assert status == 200
    assert 'penstock_http_refused_total{reason="login"}' in page
    assert not [secret for secret in SECRETS if secret in page]


def test_health_tells_a_stranger_one_word_and_a_friend_more(guarded: Guarded) -> None:
    assert json.loads(guarded.curl("/healthz")[1]) == {"status": "ok"}
    assert json.loads(guarded.curl("/readyz")[1]) == {"status": "ok"}
    assert json.loads(guarded.curl("/livez")[1]) == {"status": "ok"}
    assert json.loads(guarded.curl("/healthz", "-u", "alice:hunter2")[1])["node_id"] == 1


@pytest.mark.parametrize("options", [("--tls-max", "1.1"), ("--cacert", "/dev/null")])
def test_nothing_is_answered_when_the_handshake_fails(guarded: Guarded, options: tuple[str, ...]) -> None:
    assert guarded.curl("/healthz", *options)[0] == 0


def test_request_is_refused_when_curl_sends_too_much(guarded: Guarded) -> None:
    login = ("-u", "alice:hunter2")
    assert guarded.curl("/metrics", *login, "-H", f"x: {'y' * 20_000}")[0] == 431
    assert guarded.curl(f"/{'y' * 9_000}", *login)[0] == 414
    assert guarded.curl("/metrics", *login, "-X", "POST", "--data", "x" * 5_000)[0] == 413
    assert guarded.curl("/metrics", *login, "-X", "POST", "--data", "x")[0] == 405


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "penstock.metrics.listen=0.0.0.0:0"], "--insecure"),
        (["--set", "penstock.metrics.listen=127.0.0.1:0", "--set", "penstock.metrics.users=hunter2"], "metrics.users"),
        (
            ["--set", "penstock.metrics.listen=127.0.0.1:0", "--set", "penstock.metrics.security.protocol=SSL"],
            "keystore",
        ),
    ],
)
def test_broker_says_why_and_does_not_start_when_its_metrics_would_not_be_safe(
    tmp_path: Path, options: list[str], said: str
) -> None:
    command = [sys.executable, "-m", "penstock", "broker", "start", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "hunter2" not in ended.stderr


def test_broker_starts_with_a_warning_when_its_owner_says_insecure(tmp_path: Path) -> None:
    config = {"penstock.metrics.listen": "0.0.0.0:0", "penstock.metrics.insecure": "true"}
    with BrokerProcess(tmp_path, config=config) as process:
        assert process.bootstrap_servers
