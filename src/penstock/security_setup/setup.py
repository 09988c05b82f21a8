"""A directory that makes brokers secure, and all files in it.

    certificates/        the authority and what it has signed (`penstock certificates --directory`)
    users.json           the credentials of the first users, for the store; no password follows from them
    broker.properties    the passwords of the brokers' own user: among each other, and at ZooKeeper; where in it
    client.properties    how the administrator connects: Kafka's client properties, `--command-config`

Rules:
- Existing files are kept: the second start uses the authority, the certificates and the passwords of the first. A start
  that was interrupted goes on where it stopped. The passwords are written before the credentials that follow from them.
- Where there is a store already, its users have the passwords that were in the files. `new_logins` are those of lost
  files: the caller of `prepare` writes them to the store first.
- A broker whose addresses have changed gets a new certificate, as does one whose certificate is about to expire.
- Only their owner can read the files. Passwords are in no log line and on no screen.
"""

from __future__ import annotations

import datetime
import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.client.java_settings import translate_client_settings
from penstock.client.security import ClientSecurity, client_security
from penstock.cluster.controller.first_users import format_first_users
from penstock.cluster.security_image import SecurityImage, user_key
from penstock.core.config.types import ConfigError
from penstock.core.jaas import parse_jaas
from penstock.core.properties import format_properties, read_properties
from penstock.security.certificates.authority import Wanted
from penstock.security.certificates.directory import CertificateDirectory, CertificatesError
from penstock.security.private_files import write_private
from penstock.security.sasl.passwords import SALT_RANDOMNESS, salt_password
from penstock.security.sasl.scram import MIN_ITERATIONS, SHA_512, encode_credential, make_credential
from penstock.security_setup.places import BROKER_FILE, USERS_FILE

logger = logging.getLogger(__name__)

ADMIN = "admin"
BROKER = "penstock-broker"
LISTENER = "SASL_SSL"
_MECHANISM = SHA_512.mechanism
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_DIGEST = "penstock.zookeeper.digest"
# The node of ZooKeeper's below which the cluster is. Directories from before do not name one: their cluster is at the
# root, and stays there.
_ROOT_KEY, _ROOT = "zookeeper.root", "/penstock-cluster"
_LOGIN_LASTS_MS = "3600000"  # clients log in again on their connections; a removed user is gone within the hour
# The number for an unknown user (`ScramServer.fake`): a stranger must not learn that these two users exist. The
# passwords are random, so that more iterations would protect nothing.
ITERATIONS = MIN_ITERATIONS
_PASSWORD_BYTES = 24
# A certificate that ends sooner than this is renewed by a start.
_RENEWED_BEFORE = datetime.timedelta(days=30)
# Clients on the same machine connect to these, whatever the broker's name is.
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class SecureSetupError(Exception):
    """The directory cannot be used; the message has the reason and the remedy."""


class BrokerAddress(NamedTuple):
    node_id: int
    hosts: tuple[str, ...]  # names and addresses that clients connect to


class SecureSetup:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.certificates_path = self.path / "certificates"
        self.client_file = self.path / "client.properties"
        self.broker_file = self.path / BROKER_FILE
        self._users_file = self.path / USERS_FILE

    @property
    def is_there(self) -> bool:
        return self._users_file.exists()

    @property
    def lost(self) -> list[Path]:
        """The files that cannot be restored, in a directory that was used before. The users' credentials can: they
        follow from the passwords.
        """
        authority = self.certificates_path / "ca.pem"
        return [each for each in (authority, self.broker_file, self.client_file) if not each.exists()]

    def new_logins(self) -> dict[str, str]:
        """New passwords of the users whose file is missing, by name."""
        return {user: _new_login(user) for user, file in self._files.items() if not file.exists()}

    @property
    def _files(self) -> dict[str, Path]:
        return {ADMIN: self.client_file, BROKER: self.broker_file}

    def prepare(
        self,
        brokers: Sequence[BrokerAddress],
        now: datetime.datetime,
        bootstrap_servers: str = "",
        logins: Mapping[str, str] | None = None,
    ) -> None:
        """Makes what is missing, with `logins`, or new ones. Raises SecureSetupError."""
        logins = self.new_logins() if logins is None else logins
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            certificates = CertificateDirectory(self.certificates_path, now)
            if not certificates.is_there:
                certificates.create()
            for broker in brokers:
                _certify(certificates, broker, now)
            self._write_client(certificates, bootstrap_servers, logins)
            self._write_users(logins)
            self._remark_readable()
        except OSError as error:
            raise SecureSetupError(f"{error.filename or self.path}: {error.strerror}") from error
        except (CertificatesError, ConfigError) as error:
            raise SecureSetupError(str(error)) from error

    def broker_properties(self, node_id: int) -> dict[str, str]:
        """The settings of one broker. Its listener's name is `LISTENER`."""
        jaas = _read_login(self.broker_file)
        certificates = self.certificates_path
        return {
            "security.inter.broker.protocol": LISTENER,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            "connections.max.reauth.ms": _LOGIN_LASTS_MS,
            f"listener.name.{LISTENER.lower()}.{_MECHANISM.lower()}.sasl.jaas.config": jaas,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates / f"{_certificate_name(node_id)}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates / "trusted.pem"),
            "penstock.ssl.crl.location": str(certificates / "crl.pem"),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{BROKER}",
            "allow.everyone.if.no.acl.found": "false",
            "penstock.first.users.file": str(self._users_file),
        }

    def store_properties(self) -> dict[str, str]:
        """Settings of brokers on ZooKeeper: no other client may change what they write there, or read secrets."""
        return {_DIGEST: read_properties(self.broker_file)[_DIGEST], "zookeeper.set.acl": "true"}

    @property
    def zookeeper_root(self) -> str:
        """The cluster's own node; empty where the cluster is at the highest one."""
        return read_properties(self.broker_file).get(_ROOT_KEY, "")

    def client_properties(self) -> dict[str, str]:
        """Kafka's client properties of the administrator."""
        return read_properties(self.client_file)

    def client_config(self, bootstrap_servers: str) -> dict[str, Any]:
        """The same as settings of librdkafka, which is what confluent-kafka takes."""
        return {**translate_client_settings(self.client_properties()), "bootstrap.servers": bootstrap_servers}

    def client_security(self) -> ClientSecurity:
        """For connections of our own."""
        return client_security(self.client_properties())

    def _write_client(
        self, certificates: CertificateDirectory, bootstrap_servers: str, logins: Mapping[str, str]
    ) -> None:
        is_there = self.client_file.exists()
        before = read_properties(self.client_file) if is_there else {}
        properties = {
            "security.protocol": LISTENER,
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": _read_login(self.client_file) if is_there else logins[ADMIN],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.trusted),
        }
        if bootstrap_servers:
            properties["bootstrap.servers"] = bootstrap_servers
        if properties != before:
            write_private(self.client_file, format_properties(properties).encode())

    def _write_users(self, logins: Mapping[str, str]) -> None:
        digest = f"{BROKER}:{secrets.token_urlsafe(_PASSWORD_BYTES)}"
        if not self.broker_file.exists():
            passwords = {"sasl.jaas.config": logins[BROKER], _DIGEST: digest, _ROOT_KEY: _ROOT}
            write_private(self.broker_file, format_properties(passwords).encode())
        elif _DIGEST not in (before := read_properties(self.broker_file)):  # from before there was one
            write_private(self.broker_file, format_properties({**before, _DIGEST: digest}).encode())
        if self._users_file.exists():
            return
        users = {user_key(name): _credential(password_of(_read_login(file))) for name, file in self._files.items()}
        write_private(self._users_file, format_first_users(SecurityImage(entity_configs=users)).encode())

    def _remark_readable(self) -> None:
        for file in (self.client_file, self.broker_file, self._users_file):
            if file.stat().st_mode & 0o077:
                logger.warning("%s is open to others than its owner, and has secrets: chmod 600 closes it", file)


def _certify(certificates: CertificateDirectory, broker: BrokerAddress, now: datetime.datetime) -> None:
    name = _certificate_name(broker.node_id)
    hosts = tuple(dict.fromkeys((*broker.hosts, *_LOCAL_HOSTS)))
    present = {entry.name: entry for entry in certificates.current()}.get(name)
    if present is not None and not set(hosts) <= set(present.hosts):
        certificates.revoke(name)
        present = None
    if present is None:
        certificates.issue(Wanted("broker", name, hosts))
    elif present.expires() - now < _RENEWED_BEFORE:
        certificates.renew([name])


def _certificate_name(node_id: int) -> str:
    return f"broker-{node_id}"


def _new_login(user: str) -> str:
    return f'{_MODULE} required username="{user}" password="{secrets.token_urlsafe(_PASSWORD_BYTES)}";'


def _read_login(file: Path) -> str:
    try:
        login = read_properties(file).get("sasl.jaas.config", "")
        if login and password_of(login):
            return login
        reason = "there is no user with a password in it (sasl.jaas.config)"
    except ConfigError as error:
        reason = error.message
    raise SecureSetupError(
        f"{file} cannot be used: {reason}. Put it back as it was, or remove it: then the next start says how to go on"
    )


def password_of(login: str) -> str:
    """Empty where there is none. Raises ConfigError."""
    return parse_jaas(login).options.get("password", "")


def _credential(password: str) -> dict[str, str]:
    made = salt_password(SHA_512, password, secrets.token_bytes(SALT_RANDOMNESS), ITERATIONS)
    return {_MECHANISM: encode_credential(make_credential(SHA_512, made.salted, made.salt, made.iterations))}
