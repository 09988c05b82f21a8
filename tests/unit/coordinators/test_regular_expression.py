from __future__ import annotations

import gc
import itertools
import re
import time
from collections.abc import Sequence

import pytest

from penstock.coordinators.regular_expression import NameExpression
from penstock.core.steps import finish
from penstock.protocol.errors import ApiError, ErrorCode


def matches(expression: NameExpression, name: str) -> bool:
    return finish(expression.match_in_steps(name))


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
    assert matches(NameExpression(expression), name)


@pytest.mark.parametrize(
    ("expression", "name"),
    [("foo", "foobar"), ("a{2}", "a"), ("[a-c]", "d"), ("a^b", "ab"), (r"\D", "1"), ("(?-i)A", "a")],
)
def test_name_is_not_matched_when_it_does_not_fit(expression: str, name: str) -> None:
    assert not matches(NameExpression(expression), name)


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
    assert not matches(NameExpression("((a|a)*)*b"), "a" * 249)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (r"^prod\.(orders|payments)\..*-events-[0-9]+$", [f"prod.orders.eu{n % 50}-events-{n}" for n in range(3_000)]),
        (".*" * 10 + "=", [f"{n:0200}" for n in range(900)]),
        (".*" * 10 + "=", ["x" * 30_000]),
    ],
    ids=["ordinary", "many names", "a long name"],
)
def test_loop_is_free_when_much_is_matched(expression: str, names: Sequence[str]) -> None:
    """Processor time, the smallest of three tries, without the collector: 2 to 15 ms, and 200 to 2,000 ms if nothing
    were remembered."""
    smallest_ms = float("inf")
    gc.disable()
    for _ in range(3):
        started = time.thread_time()
        compiled = NameExpression(expression)
        assert len({matches(compiled, name) for name in names}) == 1
        smallest_ms = min(smallest_ms, (time.thread_time() - started) * 1000)
    gc.enable()
    assert smallest_ms < 60


def test_expression_is_refused_when_matching_takes_too_long() -> None:
    names = ["".join("ab"[number >> bit & 1] for bit in range(12)) * 20 for number in range(4_096)]
    compiled = NameExpression("(a|b)*a(a|b){500}")
    with pytest.raises(ApiError) as refused:
        any(matches(compiled, name) for name in names)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "expression",
    [r"a\b-.*", r".*\Bb", "^a*$", "(a|b-)*", "(ab?)+|-", r"\b.*\b", "^-?(a|^b)$", "a$|b", "[^a]*a.", r"(-|\ba)*"],
)
def test_names_are_told_as_python_does_when_one_expression_meets_many(expression: str) -> None:
    compiled = NameExpression(expression)
    for length in range(6):
        for characters in itertools.product("ab-", repeat=length):
            name = "".join(characters)
            assert matches(compiled, name) is (re.fullmatch(expression, name) is not None), name


def test_name_is_matched_when_there_is_more_than_can_be_remembered() -> None:
    name = "".join(map(chr, range(0x10000, 0x10000 + 60_000)))
    compiled = NameExpression(".*z")
    assert matches(compiled, name + "z")
    assert not matches(compiled, name)


def test_steps_are_small_when_an_expression_is_slow() -> None:
    """A step visits each state once at most, so it is over in a few milliseconds whatever the expression."""
    matching = NameExpression("(0|1)*1(0|1){150}=").match_in_steps("1011" * 60)
    assert sum(1 for _ in matching) > 150


def test_no_step_is_needed_when_a_name_goes_a_known_way() -> None:
    expression = NameExpression("orders-[0-9]+")
    assert matches(expression, "orders-11")
    assert list(expression.match_in_steps("orders-1111")) == []


def test_expression_is_the_same_when_compiled_in_steps() -> None:
    compiled = finish(NameExpression.compile_in_steps("(a|b)+c{2}"))
    assert [matches(compiled, name) for name in ("abcc", "acc", "ac", "")] == [True, True, False, False]
