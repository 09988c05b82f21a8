"""How the monitoring listener is encrypted and who may look, from the broker's settings."""

from __future__ import annotations

from penstock.core.config.sections import MonitoringSection
from penstock.core.config.types import ConfigError
from penstock.http.authentication import (
    AnyOf,
    Authenticator,
    BasicAuthenticator,
    BearerAuthenticator,
    CertificateAuthenticator,
    Passwords,
    Tokens,
    parse_pairs,
    subject_name,
)
from penstock.http.server import HttpSecurity
from penstock.http.tls_files import load_context


def read_security(settings: MonitoringSection) -> HttpSecurity:
    """Raises ConfigError for a setting that cannot be meant, OSError for files that cannot be read."""
    ways: list[Authenticator] = []
    if settings.penstock_metrics_users:
        ways.append(BasicAuthenticator(Passwords(_pairs("users", settings.penstock_metrics_users)).check))
    if settings.penstock_metrics_tokens:
        ways.append(BearerAuthenticator(Tokens(_pairs("tokens", settings.penstock_metrics_tokens)).check))
    certificate, client_ca = settings.penstock_metrics_ssl_certificate, settings.penstock_metrics_ssl_client_ca
    if client_ca and not certificate:
        message = "penstock.metrics.ssl.client.ca needs penstock.metrics.ssl.certificate: there is no TLS without it"
        raise ConfigError(message, key="penstock.metrics.ssl.client.ca")
    if client_ca:
        ways.append(CertificateAuthenticator(subject_name))
    context = load_context(certificate, settings.penstock_metrics_ssl_key, client_ca) if certificate else None
    return HttpSecurity(
        tls=None if context is None else lambda: context,
        authenticator=AnyOf(ways) if ways else None,
        is_insecure_allowed=settings.penstock_metrics_insecure,
    )


def _pairs(name: str, text: str) -> dict[str, str]:
    try:
        return parse_pairs(text)
    except ValueError as error:
        key = f"penstock.metrics.{name}"
        raise ConfigError(f"Invalid value [hidden] for configuration {key}: {error}", key=key) from None
