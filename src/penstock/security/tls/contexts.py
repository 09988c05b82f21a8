"""From settings to OpenSSL's contexts, for the listening side and for the connecting side.

Rules:
- Only TLS 1.2 and 1.3, only suites with forward secrecy, no compression, no renegotiation.
- A context never changes: new settings or files make a new one (loading into a live one would only add authorities).
- Sessions are not resumed by TLS 1.3. A resumed session would skip the check against the revocation list, and tickets
  cost each connection, which lives for hours, more than the handshakes that they would save.
- Private keys stay in memory: OpenSSL's loader wants a file, and gets one that has no place on a disk.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from penstock.core.config.types import ConfigError
from penstock.security.tls.ciphers import choose_suites
from penstock.security.tls.der import CertificateFacts, DerError, read_certificate
from penstock.security.tls.principal_rules import BadRuleError, PrincipalMappingRule, parse_rules
from penstock.security.tls.revocation import CertificateId, read_revoked
from penstock.security.tls.settings import CRL_LOCATION, CertificateStore, TlsSettings
from penstock.security.tls.stores import KeyMaterial, load_key_material, load_trusted, read_file

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_AUTH_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_RULES = "ssl.principal.mapping.rules"


class ServerTls(NamedTuple):
    """The inputs of one listener's handshakes."""

    context: ssl.SSLContext
    rules: tuple[PrincipalMappingRule, ...]
    certificate: CertificateFacts
    revoked: frozenset[CertificateId] = frozenset()  # of clients


def load_server(settings: TlsSettings) -> ServerTls:
    """Reads files, so it is not for the event loop. Raises ConfigError."""
    if not settings.keystore.is_given:
        key = "ssl.keystore.location"
        raise ConfigError(
            f"{key} is missing: a TLS listener needs a private key and a certificate. Make them with "
            "`penstock certificates init-ca` and `penstock certificates issue broker`",
            key=key,
        )
    try:
        rules = parse_rules(settings.principal_rules)
    except BadRuleError as error:
        raise ConfigError.of_value(_RULES, settings.principal_rules, str(error)) from error
    context = _new_context(ssl.PROTOCOL_TLS_SERVER, settings)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    material = load_key_material(settings.keystore)
    _load_key(context, settings.keystore, material)
    context.verify_mode = _AUTH_MODES[settings.client_auth]
    revoked: frozenset[CertificateId] = frozenset()
    if settings.client_auth != "none":
        if not settings.truststore.is_given:
            key = "ssl.truststore.location"
            reason = (
                f"{key} is missing: ssl.client.auth={settings.client_auth} needs to know whose certificates to trust"
            )
            raise ConfigError(reason, key=key)
        revoked = _load_trust(context, settings)
    return ServerTls(context, rules, _read_leaf(material), revoked)


def load_client(settings: TlsSettings) -> ssl.SSLContext:
    """Reads files, so it is not for the event loop. Without a trust store the system's is used. Raises ConfigError."""
    context = _new_context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.checks_host_name
    if settings.truststore.is_given:
        _load_trust(context, settings)
    else:
        context.load_default_certs()
    if settings.keystore.is_given:
        _load_key(context, settings.keystore, load_key_material(settings.keystore))
    return context


def check_own_trust(settings: TlsSettings, server: ServerTls) -> None:
    """Raises ConfigError where brokers with these settings would refuse each other. They have the same
    certificate on both sides; a handshake in memory shows the fault at the start instead of at the first replication.
    """
    client = load_client(replace(settings, checks_host_name=False))
    try:
        shake_hands(server.context, client)
    except ssl.SSLError as error:
        key = "ssl.keystore.location"
        raise ConfigError(
            f"{key}: brokers would refuse each other, because the certificate in the key store is not accepted by the "
            f"trust store ({error.reason or error}). The certificate needs the purposes serverAuth and clientAuth, and "
            "its authority must be in ssl.truststore.location",
            key=key,
        ) from error


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """A whole handshake in memory. Raises SSLError when one side refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(4):  # a TLS handshake has no more than four flights
        for side in list(sides):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
                sides.remove(side)
    if sides:
        raise ssl.SSLError(ssl.SSL_ERROR_SSL, "the handshake did not end")


# ---------------------------------------------------------------------------------- contexts


def _new_context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    suites = choose_suites(settings.cipher_suites)
    usable = {"TLSv1.2": bool(suites.openssl), "TLSv1.3": suites.has_tls_1_3}
    versions = sorted(_VERSIONS[name] for name in settings.protocols if usable[name])
    if not versions:
        key = "ssl.enabled.protocols"
        reason = "No suite of ssl.cipher.suites belongs to one of these versions"
        raise ConfigError.of_value(key, ",".join(settings.protocols) or "(empty)", reason)
    context = ssl.SSLContext(protocol)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if suites.openssl:
        context.set_ciphers(suites.openssl)
    return context


def _load_key(context: ssl.SSLContext, store: CertificateStore, material: KeyMaterial) -> None:
    key = "ssl.keystore.key" if store.key else "ssl.keystore.location"
    pem = "\n".join((material.key, *material.certificates))
    try:
        with _file_of(pem.encode()) as path:
            # Without a password OpenSSL would prompt for one at the terminal.
            context.load_cert_chain(path, password=material.password or "")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        if reason == "KEY_VALUES_MISMATCH":
            text = "the private key does not belong to the first certificate; the own certificate comes first"
        elif "ENCRYPTED" in material.key:
            text = "the private key cannot be read: ssl.key.password is wrong or missing"
        else:
            text = f"the private key and its certificates cannot be used ({reason})"
        raise ConfigError(f"{key}: {text}", key=key) from None  # the cause could carry parts of the key


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> frozenset[CertificateId]:
    """Returns the certificates that the revocation lists name."""
    store = settings.truststore
    key = "ssl.truststore.certificates" if store.certificates else "ssl.truststore.location"
    try:
        context.load_verify_locations(cadata="\n".join(load_trusted(store)))
    except ssl.SSLError as error:
        raise ConfigError(f"{key}: a certificate in it cannot be read ({error.reason})", key=key) from error
    if settings.crl_location is None:
        return frozenset()
    lists = read_file(CRL_LOCATION, settings.crl_location)
    try:
        with _file_of(lists) as path:
            context.load_verify_locations(cafile=path)
        revoked = read_revoked(lists)
    except (ssl.SSLError, DerError) as error:
        reason = f"The file has no revocation list as PEM ({getattr(error, 'reason', None) or error})"
        raise ConfigError.of_value(CRL_LOCATION, settings.crl_location, reason) from error
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return revoked


def _read_leaf(material: KeyMaterial) -> CertificateFacts:
    try:
        return read_certificate(material.leaf_der)
    except (DerError, ValueError) as error:
        raise ConfigError(f"ssl.keystore: the first certificate cannot be read: {error}") from error


@contextlib.contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """A path under which OpenSSL finds the bytes: in memory on Linux, elsewhere a file that only this user can read
    and that is gone at once.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("penstock-tls", os.MFD_CLOEXEC)
        with open(descriptor, "wb", buffering=0) as file:
            file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="penstock-tls-") as named:
        named.write(data)
        named.flush()
        yield named.name
