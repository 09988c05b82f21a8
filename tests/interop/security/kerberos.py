"""A realm of Kerberos with a KDC of its own: everything lies in one directory, and nothing in /etc is read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.testing.processes import ServerProcess, find_free_port
from tests.servers import give_up_without

REALM = "PENSTOCK.TEST"
SERVICE = "kafka"
BROKER = f"{SERVICE}/localhost"
# Debian has servers and their tools where only root's PATH leads to.
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_TIMEOUT_S = 60

_CLIENTS = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {realm}
"""
_KDC = """\
[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principals
        key_stash_file = {directory}/stash
        acl_file = {directory}/acl
        supported_enctypes = aes256-cts:normal aes128-cts:normal
    }}
[logging]
    kdc = FILE:{directory}/kdc.log
"""


class Realm:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = find_free_port()
        self.config = directory / "krb5.conf"
        self.config.write_text(_CLIENTS.format(realm=REALM, port=self.port))
        profile = directory / "kdc.conf"
        profile.write_text(_KDC.format(realm=REALM, port=self.port, directory=directory))
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(profile),
            # Nobody's tickets, and replays are remembered here.
            "KRB5CCNAME": f"FILE:{directory / 'no-tickets'}",
            "KRB5RCACHEDIR": str(directory),
        }
        self._principals: set[str] = set()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "a master key for tests")

    def environment_of(self, client: str) -> dict[str, str]:
        """For a client that takes tickets as they come: its keytab is that of the whole process."""
        name = client.replace("/", "-")
        return {
            **self.environment,
            "KRB5CCNAME": f"FILE:{self.directory / name}.tickets",
            "KRB5_CLIENT_KTNAME": str(self.keytab(client)),
        }

    def keytab(self, name: str, *more: str) -> Path:
        """Of the principal `name`, with the keys of `more` beside; made on first use, and so are the principals."""
        path = self.directory / f"{'+'.join((name, *more)).replace('/', '-')}.keytab"
        if not path.exists():
            for each in (name, *more):
                self.add(each)
                self._administer(f"ktadd -norandkey -k {path} {each}")
        return path

    def add(self, name: str) -> None:
        """A principal with a key that nobody else knows."""
        if name not in self._principals:
            self._principals.add(name)
            self._administer(f"add_principal -randkey {name}")

    def change_key(self, name: str) -> None:
        """Keytabs that were made before know the old one."""
        self._administer(f"change_password -randkey {name}")

    def kdc(self) -> ServerProcess:
        program = find_program("krb5kdc")
        return ServerProcess(
            "krb5kdc",
            [program, "-n", "-r", REALM, "-P", str(self.directory / "kdc.pid")],
            port=self.port,
            log_path=self.directory / "kdc.process.log",
            environment=self.environment,
        )

    def _administer(self, query: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def _run(self, program: str, *arguments: str) -> None:
        command = [find_program(program), *arguments]
        environment = {**self.environment, "PATH": _PATH}
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment
        )
        assert ended.returncode == 0, f"{' '.join(command)}: {ended.stdout}{ended.stderr}"


def find_program(name: str) -> str:
    return shutil.which(name, path=_PATH) or give_up_without(name, "kerberos")


@contextmanager
def run_realm(directory: Path) -> Iterator[Realm]:
    if find_spec("gssapi") is None:
        give_up_without("the Python package gssapi", "kerberos")
    realm = Realm(directory)
    with realm.kdc():
        yield realm


def jaas(keytab: Path, principal: str) -> str:
    """The login module of a broker or of a Java client."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{principal}@{REALM}";'
    )
