"""Principals of Kerberos as names of users. The examples are those of Kafka's own tests (KerberosNameTest)."""

from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError
from penstock.security.sasl.kerberos_names import KerberosNames, NoRuleError

REALM = "REALM.COM"
APPLICATIONS = (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g", r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g", "DEFAULT")
CASES = (
    "RULE:[1:$1]/{case}",
    "RULE:[2:$1](Test.*)s/ABC///{case}",
    "RULE:[2:$1](ABC.*)s/ABC/XYZ/g/{case}",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g/{case}",
    "RULE:[2:$1]/{case}",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("principal", "user"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("user@REALM.COM", "user"),
    ],
)
def test_user_has_the_name_of_the_first_rule_that_applies(principal: str, user: str) -> None:
    assert KerberosNames(APPLICATIONS, REALM).user(principal) == user


@pytest.mark.parametrize("case", ["L", "U"])
@pytest.mark.parametrize(
    ("principal", "user"),
    [
        ("User@REALM.COM", "user"),
        ("TestABC/host@FOO.COM", "test"),
        ("ABC_User_ABC/host@FOO.COM", "xyz_user_xyz"),
        ("App.SERVICE-name/example.com@REALM.COM", "service-name"),
        ("User/root@REALM.COM", "user"),
    ],
)
def test_name_is_in_one_case_when_the_rule_asks_for_it(principal: str, user: str, case: str) -> None:
    names = KerberosNames([rule.format(case=case) for rule in CASES], REALM)
    assert names.user(principal) == (user if case == "L" else user.upper())


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        (("DEFAULT",), "alice@ELSEWHERE.COM"),
        (("RULE:[2:$1]",), "alice@REALM.COM"),
        (("RULE:[1:$1](bob)", "DEFAULT"), "alice@ELSEWHERE.COM"),
        (("RULE:[1:$1@$0]",), "alice@REALM.COM"),
        (("RULE:[2:$1/$2]",), "alice/host@REALM.COM"),
        (("RULE:[1:$1]s/.*//",), "alice@REALM.COM"),
        (("DEFAULT",), "alice"),
        (("DEFAULT",), "a/b/c@REALM.COM"),
    ],
    ids=["another realm", "other components", "no match", "@ is left", "/ is left", "nothing is left", "no realm", "3"],
)
def test_principal_is_refused_when_no_rule_makes_a_name_of_it(rules: tuple[str, ...], principal: str) -> None:
    with pytest.raises(NoRuleError):
        KerberosNames(rules, REALM).user(principal)


@pytest.mark.parametrize(
    "rule",
    [
        "default", "DEFAUL", "DEFAULT/L", "DEFAULT/g", "rule:[1:$1]", "rule:[1:$1]/L/U", "RULE:[1:$1]/LU",
        "RULE:[1:$1/L", "RULE:[1:$1]/l", "RULE:[2:$1](ABC.*)s/ABC/XYZ/L/g", "RULE:[1:$1](*)",
    ],
)  # fmt: skip
def test_settings_are_refused_when_a_rule_is_none(rule: str) -> None:
    with pytest.raises(ConfigError):
        KerberosNames([rule], REALM)


def test_settings_are_refused_when_a_rule_names_a_group_that_its_expression_does_not_have() -> None:
    """Every login that came to the rule ended with an error nobody expected, instead of a start that says why."""
    with pytest.raises(ConfigError, match="group"):
        KerberosNames(["RULE:[1:$1]s/(a)/$2/"], REALM)


@pytest.mark.parametrize("principal", ["@REALM.COM", "a" * 600 + "@REALM.COM", ""])
def test_principal_is_refused_when_it_has_no_name_or_one_without_an_end(principal: str) -> None:
    with pytest.raises(NoRuleError):
        KerberosNames(["DEFAULT"], REALM).user(principal)


@pytest.mark.parametrize("rule", ["RULE:[1:$1]s/(a+)+$/x/", "RULE:[1:$1]s/(a|a)*$/x/g", "RULE:[1:$1]s/((a*)b?)+c/x/"])
def test_rule_is_refused_when_a_repetition_is_repeated(rule: str) -> None:
    with pytest.raises(ConfigError, match="take years"):
        KerberosNames([rule], REALM)
