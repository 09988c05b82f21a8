"""Cases are those of Kafka's SslPrincipalMapperTest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.tls.principal_rules import BadRuleError, map_name, parse_rules

_RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,"
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        (_RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (_RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (_RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (_RULES, "DN=duke,OU=JavaSoft,O=Sun Microsystems", None),
        (_RULES, "OU=JavaSoft,O=Sun Microsystems,CN=duke", "DUKE"),
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", None),
        (r"RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=Test,OU=x", None),
        (r"RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/ , DEFAULT", "CN=test", "test"),
        (r"RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/ , DEFAULT", "CN=DEFAULT", "CN=DEFAULT"),
        (r"RULE:CN=a\/b/slash\/$5/", "CN=a/b", "slash/$5"),
        (r"RULE:^CN=(\w+)$/$12/", "CN=bob", "bob2"),
    ],
)
def test_name_becomes_the_user_of_the_first_rule_when_one_matches(rules: str, name: str, user: str | None) -> None:
    assert map_name(parse_rules(rules), name) == user


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?)$/$1/LU",
        "RULE:^CN=(.*?$/$1/",
    ],
)
def test_rule_is_refused_when_it_is_malformed(rules: str) -> None:
    with pytest.raises(BadRuleError):
        parse_rules(rules)


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(a|a)*b", r"((a*)b?)+c", r"(x(?:a+)){2,}", r"([a-z]+)*$"])
def test_rule_is_refused_when_a_repetition_is_repeated(pattern: str) -> None:
    with pytest.raises(BadRuleError, match="take years"):
        parse_rules(f"RULE:{pattern}/x/")


def test_name_matches_nothing_when_it_is_longer_than_any_real_one() -> None:
    assert map_name(parse_rules(_RULES), "CN=" + ",OU=" * 100_000) is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_rules_are_applied_or_refused_when_they_are_any_text(rules: str, name: str) -> None:
    try:
        parsed = parse_rules(rules)
    except BadRuleError:
        return
    map_name(parsed, name)
