"""How many delegation tokens there may be, and how they are found."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.security.tokens import (
    MOST_NAME_BYTES,
    TokenSettings,
    decide_add_token,
    decide_expire_token,
    decide_renew_token,
    new_token,
)
from penstock.cluster.security_image import SecurityImage
from penstock.protocol.errors import ErrorCode
from penstock.security.tokens.by_hmac import TokensByHmac
from penstock.security.tokens.tokens import encode_token, token_hmac

SETTINGS = TokenSettings(b"secret", max_lifetime_ms=1_000, renewal_ms=100, most=3, most_of_owner=2)
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


def add(
    security: SecurityImage, token_id: str, owner: str = ALICE, now_ms: int = 0, renewers: tuple[str, ...] = ()
) -> tuple[ErrorCode, SecurityImage]:
    token = new_token(token_id, owner, owner, renewers, 0, SETTINGS, now_ms)
    (result,), after = decide_add_token(security, token, SETTINGS, now_ms)
    return result.code, after


def holding(*tokens: tuple[str, str], now_ms: int = 0) -> SecurityImage:
    security = SecurityImage()
    for token_id, owner in tokens:
        code, security = add(security, token_id, owner, now_ms)
        assert not code
    return security


@pytest.mark.parametrize(
    ("tokens", "owner", "code"),
    [
        ((("1", ALICE),), ALICE, ErrorCode.NONE),
        ((("1", ALICE), ("2", ALICE)), ALICE, ErrorCode.POLICY_VIOLATION),
        ((("1", ALICE), ("2", ALICE)), BOB, ErrorCode.NONE),
        ((("1", ALICE), ("2", ALICE), ("3", BOB)), CAROL, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_token_is_refused_when_its_owner_or_the_cluster_has_the_most(
    tokens: tuple[tuple[str, str], ...], owner: str, code: ErrorCode
) -> None:
    security = holding(*tokens)
    found, after = add(security, "new", owner)
    assert found == code
    assert (after is security) == bool(code)


def test_tokens_take_no_room_when_they_have_expired() -> None:
    security = holding(("1", ALICE), ("2", ALICE), ("3", BOB))
    code, after = add(security, "new", ALICE, now_ms=101)
    assert (code, list(after.tokens)) == (ErrorCode.NONE, ["new"])


def test_token_is_refused_when_its_renewers_take_too_much_room() -> None:
    room = MOST_NAME_BYTES - 2 * len(ALICE)
    assert add(SecurityImage(), "1", renewers=("x" * room,))[0] == ErrorCode.NONE
    assert add(SecurityImage(), "1", renewers=("x" * room, "y"))[0] == ErrorCode.POLICY_VIOLATION


def test_token_is_found_by_its_hmac_as_long_as_it_is_there() -> None:
    finder = TokensByHmac()
    security = holding(("1", ALICE), ("2", ALICE))
    first = token_hmac(b"secret", "1")
    assert finder.find(security.tokens, b"secret", first) == "1"
    assert finder.find(security.tokens, b"secret", first[:-1] + b"x") is None
    assert finder.find(security.tokens, b"another", first) is None
    (_,), after = decide_expire_token(security, "1", ALICE, -1, SETTINGS, 0)
    assert finder.find(after.tokens, b"secret", first) is None
    assert finder.find(after.tokens, b"secret", token_hmac(b"secret", "2")) == "2"
    assert finder.find(security.tokens, b"secret", first) == "1", "a change that was not made"


def test_other_tokens_are_the_same_objects_when_one_is_renewed() -> None:
    security = holding(("1", ALICE), ("2", ALICE))
    (result,), after = decide_renew_token(security, "1", ALICE, 0, SETTINGS, 50)
    assert result.expiry_ms == 150
    assert after.tokens["2"] is security.tokens["2"]
    assert decide_renew_token(security, None, ALICE, 0, SETTINGS, 50)[0][0].code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class CountedSettings(dict[str, str]):
    """Of a token: how often somebody looks at them."""

    looks = 0

    def __getitem__(self, key: str) -> str:
        CountedSettings.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(("others", "looks"), [(99, 0), (100, 100), (300, 300)])
def test_each_token_is_looked_at_once_at_most_when_another_comes(others: int, looks: int) -> None:
    settings = SETTINGS._replace(most=1_000, most_of_owner=100)
    tokens = {str(n): new_token(str(n), f"User:{n % 7}", BOB, (), 0, settings, 0) for n in range(others)}
    security = SecurityImage(tokens={name: CountedSettings(encode_token(each)) for name, each in tokens.items()})
    CountedSettings.looks = 0
    (result,), after = decide_add_token(security, new_token("new", ALICE, ALICE, (), 0, settings, 0), settings, 0)
    assert (result.code, CountedSettings.looks) == (ErrorCode.NONE, looks)
    (result,), _ = decide_renew_token(after, "new", ALICE, 0, settings, 50)
    assert (result.code, CountedSettings.looks) == (ErrorCode.NONE, looks)
