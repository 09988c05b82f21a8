"""Rules from Kerberos principals to users' names."""

from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError
from penstock.security.sasl.kerberos_names import KerberosNames, NoRuleError


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@HERE", "alice"),
        (["DEFAULT"], "alice/host@HERE", "alice"),
        (["RULE:[2:$1](.*)s/^svc-//"], "svc-app/host@HERE", "app"),
        (["RULE:[1:$1@$0](.*@THERE)s/@.*///L", "DEFAULT"], "Bob@THERE", "bob"),
    ],
)
def test_principal_becomes_the_user_of_the_first_rule_that_applies(rules: list[str], principal: str, user: str) -> None:
    assert KerberosNames(rules, "HERE").user(principal) == user


@pytest.mark.parametrize("principal", ["alice@ELSEWHERE", "alice", "@HERE", "a/b/c@HERE", "a" * 600 + "@HERE", ""])
def test_principal_is_refused_when_no_rule_makes_a_name_of_it(principal: str) -> None:
    with pytest.raises(NoRuleError):
        KerberosNames(["DEFAULT"], "HERE").user(principal)


@pytest.mark.parametrize("rule", ["RULE:[1:$1]s/(a+)+$/x/", "RULE:[1:$1]s/(a|a)*$/x/g", "RULE:[1:$1]s/((a*)b?)+c/x/"])
def test_rule_is_refused_when_a_repetition_is_repeated(rule: str) -> None:
    with pytest.raises(ConfigError, match="take years"):
        KerberosNames([rule], "HERE")
