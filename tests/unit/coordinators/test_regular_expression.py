from __future__ import annotations

import pytest

from penstock.coordinators.regular_expression import NameExpression
from penstock.protocol.errors import ApiError, ErrorCode


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("foo.*", "foobar"),
        ("(a|b)+c?", "abab"),
        ("[^a-c]{2,3}", "xyz"),
        ("(?i)FOO-[B]", "foo-b"),
        ("(?i:F)oo", "foo"),
        ("^a$", "a"),
        (r"\Aa\z", "a"),
        (r"\w+\.\d{2}", "ab.12"),
        ("(a*)*", ""),
        ("(?:a?){30}a{30}", "a" * 30),
        ("[[:alpha:]-]+", "a-b"),
        ("[[:^alpha:]]", "1"),
        ("a{,3}", "a{,3}"),
        ("a{2,}?", "aaa"),
        ("", ""),
        ("a||b", ""),
        (r"\Qa.b\E.", "a.bc"),
        (r"\pL\p{Lu}\PL", "aB1"),
        (r"[\d.]+", "1.2"),
        (r"[a\-z]+", "a-z"),
        ("x-(?P<n>1|2)(?<m>3)", "x-23"),
        (r"a\b-\Bb?", "a-"),
        (r"\x41\x{42}", "AB"),
        ("[]a]", "]"),
    ],
)
def test_name_is_matched_when_the_whole_of_it_fits(expression: str, name: str) -> None:
    assert NameExpression(expression).matches(name)


@pytest.mark.parametrize(
    ("expression", "name"),
    [("foo", "foobar"), ("a{2}", "a"), ("[a-c]", "d"), ("a^b", "ab"), (r"\D", "1"), ("(?-i)A", "a")],
)
def test_name_is_not_matched_when_it_does_not_fit(expression: str, name: str) -> None:
    assert not NameExpression(expression).matches(name)


@pytest.mark.parametrize(
    "expression",
    [
        "(", ")", "[", "a**", "*a", "(?=a)", "(?<!a)", "(?<=a)", r"\1", "a{1001}", "[z-a]", "(?P<1>a)", "\\", "a{3,2}",
        r"\p{Xx}", r"\q", r"\x{110000}", "[[:what:]]", "(?z)", "(?i)*", "(" * 200 + ")" * 200, "((a{100}){100}){100}",
        "a" * 5_000,
    ],
)  # fmt: skip
def test_expression_is_refused_when_it_is_none_or_too_large(expression: str) -> None:
    with pytest.raises(ApiError) as refused:
        NameExpression(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_match_is_quick_when_backtracking_would_take_for_ever() -> None:
    assert not NameExpression("((a|a)*)*b").matches("a" * 249)
