"""Makes the mechanisms of a listener from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.broker.login.key_sources import KeySources
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.jaas import MODULE_OF_MECHANISM, LoginModule, parse_jaas
from penstock.security.sasl.exchange import GSSAPI, OAUTHBEARER, PLAIN, ServerMechanism
from penstock.security.sasl.plain import PlainServer
from penstock.security.sasl.scram import SCRAM_HASHES
from penstock.security.sasl.scram_server import ScramServer, ScramUsers

_ACCOUNT = "user_"


class Sources(NamedTuple):
    """The sources of mechanisms beside the configuration."""

    users: ScramUsers
    random_bytes: Callable[[int], bytes]
    salt_secret: bytes  # equal on all brokers of a cluster, also after a restart


def make_mechanisms(
    config: BrokerConfig, listener: str, sources: Sources, keys: KeySources, now_ms: int | None
) -> Mapping[str, ServerMechanism]:
    """The mechanisms by name. With `now_ms` it reads keys in files at once. Raises ConfigError."""
    enabled = config.listener_value(listener, "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    if not enabled:
        raise ConfigError(f"sasl.enabled.mechanisms is empty, and listener {listener} needs one", key="listeners")
    return {name: _make(config, listener, name, sources, keys, now_ms) for name in enabled}


def _make(
    config: BrokerConfig, listener: str, name: str, sources: Sources, keys: KeySources, now_ms: int | None
) -> ServerMechanism:
    if name in SCRAM_HASHES:
        return ScramServer(SCRAM_HASHES[name], sources.users, sources.random_bytes, sources.salt_secret)
    if name == PLAIN:
        options = require_module(config, listener, name).options
        accounts = {key.removeprefix(_ACCOUNT): value for key, value in options.items() if key.startswith(_ACCOUNT)}
        return PlainServer(accounts)
    if name == OAUTHBEARER:
        return _make_oauthbearer(config, listener, keys, now_ms)
    assert name == GSSAPI
    return _make_gssapi(config, listener)


def find_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    """The login module of a mechanism: its own, or the module for all mechanisms where its kind fits."""
    text = config.listener_value(listener, "sasl.jaas.config", mechanism)
    if text is None:
        return None
    module = parse_jaas(str(text))
    return module if module.name == MODULE_OF_MECHANISM[mechanism] else None


def require_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    module = find_module(config, listener, mechanism)
    if module is None:
        key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(f"{mechanism} needs {key} with {MODULE_OF_MECHANISM[mechanism]}", key="sasl.jaas.config")
    return module


def _make_oauthbearer(config: BrokerConfig, listener: str, sources: KeySources, now_ms: int | None) -> ServerMechanism:
    from penstock.security.sasl.jwt import JwtJudge, JwtRules
    from penstock.security.sasl.oauthbearer import OAuthBearerServer

    def value(name: str) -> object:
        return config.listener_value(listener, name, OAUTHBEARER)

    url = value("sasl.oauthbearer.jwks.endpoint.url")
    refresh_ms, skew_s = (
        value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        value("sasl.oauthbearer.clock.skew.seconds"),
    )
    allowed_urls = config.get("penstock.sasl.oauthbearer.allowed.urls")
    allowed_files = config.get("penstock.sasl.oauthbearer.allowed.files")
    issuer, audiences = value("sasl.oauthbearer.expected.issuer"), value("sasl.oauthbearer.expected.audience")
    assert isinstance(refresh_ms, int)
    assert isinstance(skew_s, int)
    assert isinstance(allowed_urls, tuple)
    assert isinstance(allowed_files, tuple)
    keys = sources.open(None if url is None else str(url), allowed_urls, allowed_files, refresh_ms)
    if now_ms is not None and str(url).startswith("file:"):
        try:
            keys.load(now_ms)
        except (OSError, ValueError) as error:
            key = "sasl.oauthbearer.jwks.endpoint.url"
            raise ConfigError.of_value(key, url, f"the keys cannot be read: {error}") from None
    rules = JwtRules(
        subject_claim=str(value("sasl.oauthbearer.sub.claim.name")),
        scope_claim=str(value("sasl.oauthbearer.scope.claim.name")),
        issuer=None if issuer is None else str(issuer),
        audiences=audiences if isinstance(audiences, tuple) else (),
        skew_ms=skew_s * 1000,
    )
    return OAuthBearerServer(JwtJudge(keys, rules))


def _make_gssapi(config: BrokerConfig, listener: str) -> ServerMechanism:
    from penstock.security.sasl.gssapi import GssapiServer, load_gssapi
    from penstock.security.sasl.kerberos_names import KerberosNames

    load_gssapi()
    module = require_module(config, listener, GSSAPI)
    principal = module.options.get("principal", "")
    name, _, realm = principal.partition("@")
    if not name or not realm:
        raise ConfigError("GSSAPI needs the principal of this broker, as kafka/HOST@REALM, in sasl.jaas.config")
    rules = config.listener_value(listener, "sasl.kerberos.principal.to.local.rules")
    assert isinstance(rules, tuple)
    return GssapiServer(principal, module.options.get("keyTab"), KerberosNames(rules, realm))
