from __future__ import annotations

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_are_read_when_they_are_quoted_in_any_way() -> None:
    text = rf"""
        {PLAIN} required  // a comment
        username="al\"ice" password='it\'s'
        debug=true user_bob="a;b=c";
    """
    module = parse_jaas(text)
    assert module.name == PLAIN
    assert module.options == {"username": 'al"ice', "password": "it's", "debug": "true", "user_bob": "a;b=c"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "geheim",
        f"{PLAIN} required",
        f"{PLAIN} geheim;",
        f'{PLAIN} required password="geheim;',
        f'{PLAIN} required password "geheim";',
        f'{PLAIN} required password="geheim"; {PLAIN} required;',
        'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://geheim";',
        'com.sun.security.auth.module.LdapLoginModule required userProvider="ldap://geheim";',
        "/geheim required;",
    ],
)
def test_text_is_refused_without_showing_it_when_it_is_no_module_of_kafkas(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text)
    assert "geheim" not in caught.value.message


def test_foreign_module_is_named_when_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"com\.sun\.security\.auth\.module\.JndiLoginModule"):
        parse_jaas("com.sun.security.auth.module.JndiLoginModule required;")


def test_secrets_are_not_shown_when_a_module_or_a_configuration_is_printed() -> None:
    text = f'{PLAIN} required username="alice" password="geheim";'
    assert "geheim" not in repr(parse_jaas(text))
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    config = BrokerConfig.parse({"log.dirs": "/data", key: text, "sasl.jaas.config": text})
    assert "geheim" not in repr(config)


def test_foreign_module_is_refused_when_it_is_given_for_one_listener() -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    with pytest.raises(ConfigError):
        BrokerConfig.parse({"log.dirs": "/data", key: "com.evil.Module required;"})


def test_references_stay_as_they_are_written_when_a_value_has_some() -> None:
    """CVE-2024-31141: a reference to a file or the environment, sent over the wire, gave the broker's secrets away."""
    options = {"password": "${file:/etc/passwd:root}", "user_bob": "${env:HOME}"}
    text = " ".join(f'{name}="{value}"' for name, value in options.items())
    assert parse_jaas(f"{PLAIN} required {text};").options == options
    config = BrokerConfig.parse({"log.dirs": "${env:HOME}", "ssl.keystore.password": "${file:/etc/passwd:root}"})
    assert config.log_directories == ("${env:HOME}",)
    assert config.get("ssl.keystore.password") == "${file:/etc/passwd:root}"
