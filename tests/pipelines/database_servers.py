"""PostgreSQL, MariaDB and Redis as processes of the tests, from the system's packages; skipped where missing."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.testing.processes import ServerProcess, find_free_port
from tests.servers import give_up_without

_PREPARE_TIMEOUT_S = 100.0
PASSWORD = "hush"


class DatabaseProcess(ServerProcess):
    # PostgreSQL takes SIGTERM as a wish to wait for every client to leave by itself.
    stop_signal = signal.SIGTERM

    def stop(self) -> None:
        self.process.send_signal(self.stop_signal)
        self.process.wait(30)


class PostgresProcess(DatabaseProcess):
    stop_signal = signal.SIGINT


@contextmanager
def postgresql() -> Iterator[tuple[DatabaseProcess, str]]:
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not homes:
        give_up_without("PostgreSQL", "databases")
    with _directory("postgres") as (home, as_user):
        data, port = home / "data", find_free_port()
        (home / "password").write_text(PASSWORD)
        (home / "password").chmod(0o644)
        prepare = [homes[-1] / "initdb", "-D", data, "-U", "etl", "-A", "scram-sha-256", "--pwfile", home / "password"]
        _run([*as_user, *map(str, prepare), "-E", "UTF8", "--no-locale", "-N"])
        command = [homes[-1] / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", home, "-F"]
        server = PostgresProcess("postgres", [*as_user, *map(str, command)], port=port, log_path=home / "log")
        yield from _serving(server, f"postgresql+psycopg://etl:{PASSWORD}@127.0.0.1:{port}/postgres")


@contextmanager
def mariadb() -> Iterator[tuple[DatabaseProcess, str]]:
    daemon = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if daemon is None or shutil.which("mariadb-install-db") is None:
        give_up_without("MariaDB", "databases")
    with _directory("mysql") as (home, as_user):
        data, port = home / "data", find_free_port()
        _run(
            [
                *as_user,
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
            ]
        )
        start = home / "start.sql"
        start.write_text(
            "CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS etl@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            "GRANT ALL ON shop.* TO etl@'127.0.0.1';\n"
        )
        start.chmod(0o644)
        options = [
            f"--datadir={data}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={home}/s",
            f"--init-file={start}",
        ]
        command = [*as_user, daemon, "--no-defaults", *options, "--skip-name-resolve"]
        server = DatabaseProcess("mariadbd", command, port=port, log_path=home / "log")
        yield from _serving(server, f"mysql+pymysql://etl:{PASSWORD}@127.0.0.1:{port}/shop")


@contextmanager
def redis() -> Iterator[tuple[DatabaseProcess, str]]:
    daemon = shutil.which("redis-server")
    if daemon is None:
        give_up_without("Redis", "databases")
    with tempfile.TemporaryDirectory(prefix="penstock-redis-") as home:
        port = find_free_port()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", home, "--save", "", "--requirepass", PASSWORD]
        server = DatabaseProcess("redis-server", [daemon, *options], port=port, log_path=Path(home) / "log")
        yield from _serving(server, f"redis://:{PASSWORD}@127.0.0.1:{port}/0")


def _serving(server: DatabaseProcess, url: str) -> Iterator[tuple[DatabaseProcess, str]]:
    server.start()
    try:
        yield server, url
    finally:
        if server.is_running:
            server.stop()


@contextmanager
def _directory(user: str) -> Iterator[tuple[Path, list[str]]]:
    """Servers refuse to run as root: then as the user that their package made, in a directory it may enter."""
    home = Path(tempfile.mkdtemp(prefix="penstock-sql-"))
    as_user: list[str] = []
    if os.geteuid() == 0:
        account = pwd.getpwnam(user)
        os.chown(home, account.pw_uid, account.pw_gid)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={account.pw_gid}", "--clear-groups"]
    try:
        yield home, as_user
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_PREPARE_TIMEOUT_S, cwd="/")
