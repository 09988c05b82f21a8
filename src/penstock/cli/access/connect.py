"""The way into a cluster: TLS and a login, by our own connection, which says at once why there is none."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence

from penstock.cli.errors import CliError, ExitCode, UsageError, unreachable
from penstock.client.addresses import Address, Heard
from penstock.client.connection import CONNECT_TIMEOUT_S, ConnectionClosedError, LoginPutOffError, LoginRefusedError
from penstock.client.credentials import CredentialsError, read_mechanism
from penstock.client.security import ClientSecurity, client_security, kafka_properties, why_not_ours
from penstock.client.versioned_client import VersionedClient
from penstock.core.config.types import ConfigError
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

CLIENT_ID = "penstock-cli"
_LOGIN_HINT = "Check the user, the password and the mechanism in the file given to --command-config."
_TLS_HINT = "Check security.protocol and ssl.* in the file given to --command-config, and the host's name."
# In the alerts that a broker sends about the certificate of its client.
_OF_CERTIFICATES = ("certificate", "unknown ca", "access denied")


def open_first(
    candidates: Sequence[Address], settings: Mapping[str, str], patience_s: float, heard: Heard
) -> VersionedClient:
    """The first that answers, logged in: those first that answered before. Raises CliError with what is wrong."""
    security = security_of(settings)
    failures = []
    for host, port in heard.order(candidates):
        try:
            return _open((host, port), security, patience_s, heard)
        except (LoginRefusedError, LoginPutOffError) as error:
            raise CliError(f"{host}:{port}: {error}", _LOGIN_HINT, ExitCode.UNREACHABLE) from error
        except ssl.SSLError as error:
            raise CliError(f"{host}:{port}: {_tls_failure(error)}", _TLS_HINT, ExitCode.UNREACHABLE) from error
        except ConnectionClosedError as error:
            if isinstance(
                error.__cause__, ssl.SSLError
            ):  # with TLS 1.3 the client's handshake ends before the broker's
                message = f"{host}:{port}: {_tls_failure(error.__cause__)}"
                raise CliError(message, _TLS_HINT, ExitCode.UNREACHABLE) from error
            failures.append(f"{host}:{port} ({error}; has its listener this security.protocol?)")
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
        except ApiError as error:
            raise CliError(f"{host}:{port} does not tell its versions: {error.message}") from error
    raise unreachable(failures)


def _open(address: Address, security: ClientSecurity, patience_s: float, heard: Heard) -> VersionedClient:
    patience_s = heard.patience(address, patience_s)
    try:
        client = VersionedClient.open(
            address,
            client_id=CLIENT_ID,
            software=CLIENT_ID,
            security=security,
            timeout_s=min(CONNECT_TIMEOUT_S, patience_s),
            answer_timeout_s=patience_s,
        )
    except OSError as error:
        heard.note_failure(address, error)
        raise
    heard.note(address, answered=True)
    return client


def _tls_failure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason and any(word in reason for word in _OF_CERTIFICATES):
        return f"the broker refuses the client's certificate: {reason}"
    return f"no TLS connection: {reason}"


def try_login(candidates: Sequence[Address], settings: Mapping[str, str], patience_s: float, heard: Heard) -> None:
    """Raises CliError where the cluster does not let us in. Settings that the client library alone understands are left
    for it to try, but not a mechanism that nobody knows: it would be silent for half a minute.
    """
    try:
        read_mechanism(settings)
    except CredentialsError as error:
        raise UsageError(str(error), _LOGIN_HINT) from error
    if why_not_ours(settings):
        return
    with open_first(candidates, settings, patience_s, heard) as broker:
        try:  # versions are told before the login: a broker that wants one ends the connection at the next request
            broker.request(MetadataRequest(topics=[]), MetadataResponse, timeout_s=patience_s)
        except TimeoutError:
            return  # a busy broker: the client library has more patience
        except ConnectionClosedError as error:
            host, port = broker.address
            raise CliError(f"{host}:{port} wants another login: {error}", _LOGIN_HINT, ExitCode.UNREACHABLE) from error


def security_of(settings: Mapping[str, str]) -> ClientSecurity:
    try:
        return client_security(kafka_properties(settings))
    except ConfigError as error:
        raise UsageError(error.message, _TLS_HINT) from error
    except CredentialsError as error:
        raise UsageError(str(error), _LOGIN_HINT) from error
