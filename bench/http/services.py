"""The services as processes: plain, and with TLS and a password."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.http.sender import Target
from penstock.security.certificates.directory import CertificateDirectory
from penstock.testing.processes import ServerProcess, find_free_port

HOST = "127.0.0.1"
USER = ("bench", "a-password-of-the-benchmark")


class Service(ServerProcess):
    """A program of ours that listens for HTTP. With certificates its callers need TLS and a password."""

    def __init__(
        self, name: str, arguments: list[str], directory: Path, certificates: CertificateDirectory | None = None
    ) -> None:
        self.certificates = certificates
        port = find_free_port()
        scheme = "http" if certificates is None else "https"
        self.url = f"{scheme}://{HOST}:{port}"
        settings = {} if certificates is None else _secured(certificates)
        command = [sys.executable, "-m", *arguments, "--listen", self.url]
        command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        # With bytecode, as a package has it once it is installed.
        bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}
        log_path = directory / f"{name}-{port}.log"
        super().__init__(name, command, port=port, log_path=log_path, environment=bytecode)

    def is_ready(self) -> bool:
        """A service listens before it can answer: 503 until then."""
        if not super().is_ready():
            return False
        target = self.target
        if target.tls is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        else:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=10, context=target.tls)
        try:
            connection.request("GET", "/subjects")
            return connection.getresponse().status != http.client.SERVICE_UNAVAILABLE
        except OSError:
            return False
        finally:
            connection.close()

    @property
    def target(self) -> Target:
        if self.certificates is None:
            return Target(self.url)
        return Target(self.url, USER, str(self.certificates.trusted))


def _secured(certificates: CertificateDirectory) -> Mapping[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.file("broker")),
        "authentication.method": "BASIC",
        "penstock.http.users": ":".join(USER),
    }
