from __future__ import annotations

import pytest

from penstock.cluster.decisions.topic_names import check_collision, check_topic_name, is_valid_topic_name
from penstock.protocol.errors import ApiError, ErrorCode


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "__consumer_offsets", "...", "a" * 249])
def test_name_is_allowed_when_it_follows_the_rules(name: str) -> None:
    check_topic_name(name)
    assert is_valid_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("é", "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_name_is_refused_with_kafkas_words_when_it_breaks_a_rule(name: str, reason: str) -> None:
    with pytest.raises(ApiError) as error:
        check_topic_name(name)
    assert error.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error.value.message == f"Topic name is invalid: {reason}"


def test_names_collide_when_they_differ_in_dots_and_underscores_only() -> None:
    existing = {"a_b_c": "a.b_c"}
    with pytest.raises(ApiError, match=r"Topic 'a_b\.c' collides with existing topic: a\.b_c"):
        check_collision("a_b.c", existing)
    check_collision("a.b_c", existing)
    check_collision("other", existing)
