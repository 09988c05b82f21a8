"""Rules of an operator that would take years on a name that a client makes up."""

from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError
from penstock.security.sasl.kerberos_names import KerberosNames


@pytest.mark.parametrize("rule", ["RULE:[1:$1]s/(a+)+/y/", "RULE:[1:$1]s/(a|b)*/y/g"])
def test_broker_does_not_start_when_a_kerberos_rule_could_take_years(rule: str) -> None:
    with pytest.raises(ConfigError, match="repeated"):
        KerberosNames([rule], "EXAMPLE.COM")
