"""`penstock rest start` as a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest
from tests.clients.support import PATIENCE_S

COMMAND = [sys.executable, "-c", "import sys; from penstock.cli.main import main; sys.exit(main())", "rest", "start"]


def test_proxy_serves_and_ends_cleanly_when_it_is_started_and_told_to_stop(
    broker: RunningBroker, tmp_path: Path
) -> None:
    config = tmp_path / "kafka-rest.properties"
    config.write_text(f"bootstrap.servers={broker.bootstrap_servers}\nconsumer.threads=50\nid=one\n")
    arguments = ["--config", str(config), "--listen", "127.0.0.1:0", "--set", "consumer.request.timeout.ms=10"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        try:
            rest = Rest(ready.split()[-1])
            assert len(rest.get("/brokers").json["brokers"]) == 1
            path = rest.instance("started")
            assert rest.post(f"{path}/subscription", {"topics": ["nothing"]}).status == 204
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
    assert ready.startswith("penstock rest is ready at http://127.0.0.1:")
    assert process.returncode == 0
    assert "consumer.threads" in errors


def test_proxy_names_the_brokers_that_do_not_answer_when_it_is_started_without_one() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # nobody listens here
        nobody = f"127.0.0.1:{listener.getsockname()[1]}"
        arguments = ["--listen", "127.0.0.1:0", "--bootstrap-server", nobody]
        with subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            try:
                readiness = Rest(line.split()[4].rstrip(",")).get("/readyz")
            finally:
                process.send_signal(signal.SIGTERM)
                _, errors = process.communicate(timeout=PATIENCE_S)
    assert line.endswith(", but no broker answers yet\n")
    assert readiness.status == 503
    assert f"WARN  client.routes.first_contact: no broker answers yet servers={nobody}" in errors
    assert "refused" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "consumer.instance.timout.ms=1"], "did you mean 'consumer.instance.timeout.ms'"),
        (["--listen", "0.0.0.0:0"], "--insecure"),
    ],
)
def test_start_is_refused_with_a_reason_when_settings_are_wrong(arguments: list[str], words: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert words in done.stderr


def test_start_names_the_address_when_it_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*COMMAND, "--listen", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert f"the REST proxy cannot start: {address}: Address already in use" in done.stderr
