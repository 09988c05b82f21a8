"""Which claims of a signed token are believed: those of Kafka's BrokerJwtValidator."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.security.sasl.exchange import LoginError
from penstock.security.sasl.jwt import JwtRules, check_claims

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000


def claims(**given: Any) -> dict[str, Any]:
    """Those of a usual token; None takes one away."""
    usual = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
    return {name: value for name, value in {**usual, **given}.items() if value is not None}


@pytest.mark.parametrize("scope", [None, "kafka", "read write", ["read", "write"], [], 7, {"a": 1}, True])
def test_token_is_believed_when_it_has_no_scopes_or_good_ones(scope: object) -> None:
    assert check_claims(claims(scope=scope), JwtRules(), NOW_MS).name == "alice"


@pytest.mark.parametrize("scope", ["", "  ", ["read", ""], ["read", " read "], ["read", 7], [None]])
def test_token_is_refused_when_a_scope_is_empty_or_twice_or_no_text(scope: object) -> None:
    with pytest.raises(LoginError, match="scope"):
        check_claims(claims(scope=scope), JwtRules(), NOW_MS)


def test_claim_with_another_name_counts_when_the_settings_say_so() -> None:
    rules = JwtRules(subject_claim="email", scope_claim="scp")
    assert check_claims(claims(email="a@b", sub=None, scope=""), rules, NOW_MS).name == "a@b"
    with pytest.raises(LoginError, match="scp"):
        check_claims(claims(email="a@b", scp=[""]), rules, NOW_MS)


def test_name_is_without_blanks_when_the_subject_has_some() -> None:
    assert check_claims(claims(sub="\t alice \n"), JwtRules(), NOW_MS).name == "alice"


@pytest.mark.parametrize("missing", ["sub", "iat", "exp"])
def test_token_is_refused_when_a_claim_is_missing(missing: str) -> None:
    with pytest.raises(LoginError, match=missing):
        check_claims(claims(**{missing: None}), JwtRules(), NOW_MS)


@pytest.mark.parametrize("value", ["", " \t", 7, ["alice"]])
def test_token_is_refused_when_the_subject_is_no_name(value: object) -> None:
    with pytest.raises(LoginError, match="sub"):
        check_claims(claims(sub=value), JwtRules(), NOW_MS)


@pytest.mark.parametrize(("offset_s", "is_believed"), [(0, True), (60 + 29, True), (60 + 30, False), (3_600, False)])
def test_token_ends_when_its_time_and_the_skew_of_clocks_are_over(offset_s: int, is_believed: bool) -> None:
    now_ms = NOW_MS + offset_s * 1000
    if is_believed:
        assert check_claims(claims(), JwtRules(), now_ms).expires_ms == NOW_MS + 60_000
    else:
        with pytest.raises(LoginError, match="expired"):
            check_claims(claims(), JwtRules(), now_ms)


@pytest.mark.parametrize(
    ("audience", "is_believed"),
    [("kafka", True), (["other", "kafka"], True), ("other", False), ([], False), (None, False), (7, False)],
)
def test_audience_must_be_named_when_one_is_expected(audience: object, is_believed: bool) -> None:
    rules = JwtRules(audiences=("kafka", "streams"))
    if is_believed:
        check_claims(claims(aud=audience), rules, NOW_MS)
    else:
        with pytest.raises(LoginError, match=r"audience|aud"):
            check_claims(claims(aud=audience), rules, NOW_MS)
