"""A ZooKeeper in the foreground: from options to a child process whose output is ours."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.output import warn_of_secrets
from penstock.cli.text import parse_setting
from penstock.processes.zookeeper_jars import ZooKeeperMissingError
from penstock.processes.zookeeper_process import EnsembleMembership, ZooKeeperProcess, ZooKeeperServer

# How often the server is asked whether it serves, until it does.
_POLL_S = 0.1


class ZooKeeperOptions(NamedTuple):
    data: str
    host: str
    port: int
    ensemble: str | None
    server_id: int
    settings: tuple[str, ...]


def run_zookeeper(options: ZooKeeperOptions) -> int:
    """Blocks until SIGTERM or SIGINT, or until the server ends by itself; returns the exit code."""
    place = None if options.ensemble is None else parse_place(options.ensemble, options.server_id)
    settings = dict(_parse_setting(each) for each in options.settings)
    warn_of_secrets(options.settings, "ssl.keyStore.passwordPath and ssl.trustStore.passwordPath name files instead.")
    try:
        server = ZooKeeperProcess(
            Path(options.data), port=options.port, host=options.host, place=place, settings=settings
        )
    except ZooKeeperMissingError as error:
        raise CliError(error.message, error.hint) from None
    _check_port(options.host, options.port)
    server.prepare()
    return _Foreground(server).run()


def parse_place(ensemble: str, server_id: int) -> EnsembleMembership:
    members = [_parse_member(each.strip()) for each in ensemble.split(",")]
    if server_id > len(members):
        raise UsageError(f"--id {server_id} is more than the {len(members)} servers of --ensemble")
    return EnsembleMembership(server_id, members)


def _parse_member(text: str) -> ZooKeeperServer:
    host, peer_port, election_port = ([*text.rsplit(":", 2), "", ""])[:3]
    if not host or not peer_port.isdecimal() or not election_port.isdecimal():
        raise UsageError(
            f"{text!r} is not HOST:PORT:PORT", "As in --ensemble zk1:2888:3888,zk2:2888:3888,zk3:2888:3888"
        )
    return ZooKeeperServer(host, int(peer_port), int(election_port))


def _parse_setting(text: str) -> tuple[str, str]:
    key, value = parse_setting(text)
    if "\n" in key or "\n" in value:
        raise UsageError(f"{key!r} has more than one line")
    return key, value


def _check_port(host: str, port: int) -> None:
    """ZooKeeper would say it too, in a page of Java."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = "Another ZooKeeper may run there; --port takes another."
            raise CliError(f"cannot listen on {host}:{port}: {error.strerror}", hint) from None


class _Foreground:
    def __init__(self, server: ZooKeeperProcess) -> None:
        self._server = server
        self._is_stopping = False

    def run(self) -> int:
        # In a session of its own: a Ctrl-C reaches us alone, and we tell it.
        process = subprocess.Popen(self._server.command, stdin=subprocess.DEVNULL, start_new_session=True)

        def stop(_number: int, _frame: object) -> None:
            self._is_stopping = True
            process.terminate()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._tell_when_ready(process)
            code = process.wait()
        finally:
            process.kill()  # only if something went wrong here
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._is_stopping:
            return ExitCode.SUCCESS
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise CliError(f"ZooKeeper ended by itself with {how}", "Its own words are above.")

    def _tell_when_ready(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and not self._is_stopping:
            if self._server.is_ready():
                sys.stdout.write(f"ZooKeeper is ready at {self._server.connect}\n")
                sys.stdout.flush()
                return
            try:
                process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
