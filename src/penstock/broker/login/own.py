"""The credentials with which this broker logs in at other brokers, where their listener has SASL."""

from __future__ import annotations

from penstock.broker.login.mechanisms import find_module, require_module
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.security.sasl.exchange import GSSAPI, PLAIN, Credentials, LoginError
from penstock.security.sasl.plain import PlainCredentials
from penstock.security.sasl.scram import SCRAM_HASHES
from penstock.security.sasl.scram_client import ScramCredentials

MECHANISM_KEY = "sasl.mechanism.inter.broker.protocol"


def own_users(config: BrokerConfig) -> dict[str, str]:
    """The user as which brokers log in, by listener; without the listeners where brokers log in with tickets, or not at
    all. Listeners of clients may have such a user too: while `inter.broker.listener.name` changes by a rolling restart,
    brokers with the new value use a listener that this broker does not use among brokers yet.
    """
    users: dict[str, str] = {}
    for endpoint in config.endpoints:
        mechanism = str(config.listener_value(endpoint.name, MECHANISM_KEY))
        if not endpoint.has_login or (mechanism != PLAIN and mechanism not in SCRAM_HASHES):
            continue
        module = find_module(config, endpoint.name, mechanism)
        user = None if module is None else module.options.get("username")
        if user:
            users[endpoint.name] = user
    return users


def own_credentials(config: BrokerConfig) -> Credentials | None:
    """None where brokers need no credentials among themselves. Raises ConfigError."""
    listener = config.inter_broker_listener
    endpoint = next((each for each in config.endpoints if each.name == listener), None)
    if endpoint is None or not endpoint.has_login:
        return None
    mechanism = str(config.listener_value(listener, MECHANISM_KEY))
    enabled = config.listener_value(listener, "sasl.enabled.mechanisms")
    if isinstance(enabled, tuple) and mechanism not in enabled:
        raise ConfigError(
            f"{MECHANISM_KEY} is {mechanism}, and must be one of sasl.enabled.mechanisms", key=MECHANISM_KEY
        )
    options = require_module(config, listener, mechanism).options
    if mechanism == GSSAPI:
        from penstock.security.sasl.gssapi import GssapiCredentials

        service = config.listener_value(listener, "sasl.kerberos.service.name") or options.get("serviceName", "kafka")
        return GssapiCredentials(str(service), options.get("principal"), options.get("keyTab"))
    if mechanism != PLAIN and mechanism not in SCRAM_HASHES:
        raise ConfigError(f"brokers do not log in at each other with {mechanism}", key=MECHANISM_KEY)
    user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise ConfigError(f"{mechanism} between brokers needs username and password in sasl.jaas.config")
    try:
        if mechanism == PLAIN:
            return PlainCredentials(user, password)
        return ScramCredentials(SCRAM_HASHES[mechanism], user, password)
    except LoginError as error:
        raise ConfigError(str(error), key="sasl.jaas.config") from None
