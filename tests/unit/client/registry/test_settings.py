"""Settings of a registry's client that make no sense are refused, without their secrets."""

from __future__ import annotations

import pytest

from penstock.client.registry.settings import RegistrySettings
from penstock.core.config.types import ConfigError


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "names no registry"),
        ({"schema.registry.url": " , "}, "names no registry"),
        ({"schema.registry.url": "ftp://host"}, "ftp://host is not the address"),
        ({"schema.registry.url": "http://host:port"}, "an address is wrong"),
        ({"schema.registry.url": "http://host/a?b=secret"}, "write http://HOST:PORT"),
        ({"schema.registry.url": "http://h", "basic.auth.user.info": "secret"}, "must be user:password"),
        ({"schema.registry.url": "http://h", "basic.auth.credentials.source": "MAGIC"}, "USER_INFO, URL"),
        (
            {"schema.registry.url": "http://h", "basic.auth.user.info": "a:secret", "bearer.auth.token": "secret"},
            "exclude each other",
        ),
        ({"schema.registry.url": "http://h", "bearer.auth.credentials.source": "OAUTHBEARER"}, "STATIC_TOKEN"),
        ({"schema.registry.url": "http://h", "bearer.auth.token": "secret\r\nX: y"}, "cannot have"),
        ({"schema.registry.url": "http://h:99999"}, "write http://HOST:PORT, ports end at 65535"),
        ({"schema.registry.url": "http://h", "http.read.timeout.ms": "0"}, "between 1 and"),
        ({"schema.registry.url": "https://h", "schema.registry.ssl.ca.location": "/no/file"}, "cannot be read"),
    ],
)
def test_settings_are_refused_when_they_make_no_sense(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        RegistrySettings.of_properties(properties)
    assert "secret" not in str(refused.value)


def test_several_addresses_are_read_with_paths_and_default_ports() -> None:
    settings = RegistrySettings.of_url("one:8081, https://two/api/ccompat/v7/ ,http://[::1]:9")
    assert [str(each) for each in settings.urls] == [
        "http://one:8081",
        "https://two:443/api/ccompat/v7",
        "http://[::1]:9",
    ]
