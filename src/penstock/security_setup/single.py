"""A single broker whose clients need TLS and a login: its settings, from those that it would have without."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from penstock.cluster.store.interface import StoreError
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.protocol.errors import ApiError
from penstock.security.private_files import write_private
from penstock.security_setup.lost_logins import write_logins
from penstock.security_setup.places import MARK_FILE, first_data_directory, is_marked, security_directory
from penstock.security_setup.setup import LISTENER, BrokerAddress, SecureSetup, SecureSetupError
from penstock.server.stores import ADOPTED_FILE, METADATA_FILE, make_data_directory

logger = logging.getLogger(__name__)

_ADDRESS = re.compile(r"(?:[^:/\s]+://)?(?:\[(?P<ip6>[^\]]*)\]|(?P<host>[^:]*)):(?P<port>[0-9]+)")
_DEFAULT_LISTENER = ":9092"
_ANY_PORT = "0"


def secure_single(properties: Mapping[str, str], *, is_asked: bool = True) -> tuple[SecureSetup, dict[str, str]]:
    """Makes what is missing, and returns it with the broker's settings. `properties` win over these, except that the
    listener keeps its address alone. Lost files are made anew only where the user wants security (`is_asked`), not
    where data merely stays secure. Not on an event loop. Raises SecureSetupError.
    """
    if properties.get("zookeeper.connect"):
        raise SecureSetupError(
            "a broker of a cluster is secured by settings of its own, as `Turn security on in a running cluster` in "
            "docs/guides/security.md tells; --insecure starts it without"
        )
    setup = SecureSetup(Path(security_directory(properties)))
    data = Path(first_data_directory(properties))
    logins = _settle_lost(setup, data, is_asked=is_asked)
    node_id = int(properties.get("node.id") or properties.get("broker.id") or 1)
    host, port = _listening(properties)
    names = (host,) if host else (socket.gethostname(), socket.getfqdn())
    hosts = (*names, *_advertised(properties))
    servers = "" if port == _ANY_PORT else f"{host or 'localhost'}:{port}"
    setup.prepare([BrokerAddress(node_id, hosts)], datetime.datetime.now(datetime.UTC), servers, logins)
    _mark(data, setup)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return setup, {**setup.broker_properties(node_id), **properties, "listeners": f"{LISTENER}://{address}"}


def _settle_lost(setup: SecureSetup, data: Path, *, is_asked: bool) -> dict[str, str]:
    """The logins of files that are missing. An existing store gets them first: a start that is interrupted between
    the two makes others.
    """
    logins = setup.new_logins()
    if not any((data / name).exists() for name in (METADATA_FILE, ADOPTED_FILE)):
        return logins
    lost = setup.lost
    if not setup.is_there and not is_marked(str(data)) and setup.broker_file in lost:
        raise SecureSetupError(
            f"{data} is that of a broker that is not secure, so that nobody could log in: take another directory, or "
            "see `Turn security on in a running cluster` in docs/guides/security.md"
        )
    names = ", ".join(map(str, lost))
    if lost and not is_asked:
        raise SecureSetupError(
            f"{data} is that of a secure broker, but files are missing: {names}. Put {setup.path} back from a copy or "
            "from where it was. With --secure (secure=True in a program) the broker makes them anew: without "
            "certificates, clients need the new trusted.pem; without client.properties, admin gets a new password. "
            "With --insecure everybody who connects may do everything"
        )
    if logins:
        try:
            asyncio.run(write_logins(data, logins))
        except (StoreError, LogDirectoryError, ApiError, OSError) as error:
            raise SecureSetupError(f"files are missing: {names}. No new password can be set: {error}") from error
    if lost:
        logger.warning("made anew, because they were missing: %s", names)
    return logins


def _mark(data: Path, setup: SecureSetup) -> None:
    """Before the first start makes a store: there is no moment at which the data looks open."""
    text = os.fsencode(f"{setup.path}\n")
    try:
        make_data_directory(data)
        mark = data / MARK_FILE
        if not mark.exists() or mark.read_bytes() != text:
            write_private(mark, text)
    except OSError as error:
        raise SecureSetupError(f"{error.filename or data}: {error.strerror}") from error


def _listening(properties: Mapping[str, str]) -> tuple[str, str]:
    listeners = properties.get("listeners") or _DEFAULT_LISTENER
    match = None if "," in listeners else _ADDRESS.fullmatch(listeners.strip())
    if match is None:
        raise SecureSetupError(f"listeners={listeners}: a secure start has one listener, HOST:PORT")
    host = match["ip6"] or match["host"] or ""
    return "" if host in ("0.0.0.0", "::") else host, match["port"]  # noqa: S104 - recognised, not bound


def _advertised(properties: Mapping[str, str]) -> list[str]:
    found = (_ADDRESS.fullmatch(part.strip()) for part in properties.get("advertised.listeners", "").split(",") if part)
    return [match["ip6"] or match["host"] for match in found if match is not None and (match["ip6"] or match["host"])]
