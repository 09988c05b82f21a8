"""Numbers that a body gives as texts."""

from __future__ import annotations

import msgspec
import pytest

from penstock.rest.number_texts import NumberText, number_of, reason_of


@pytest.mark.parametrize("number", [0, 7, 999_999_999, 1_000_000_000, 2_000_000_000, 2_147_483_599, 2**31 - 1])
def test_text_is_a_number_when_32_bits_hold_it(number: int) -> None:
    assert number_of(msgspec.convert(str(number), NumberText)) == number


@pytest.mark.parametrize("text", ["", "7\n", "-1", "1e3", " 1", str(2**31), "2200000000", "9999999999", "00000000001"])
def test_text_is_refused_when_it_is_no_number_of_32_bits(text: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(text, NumberText)
    assert reason_of(refused.value) == "Expected a number from 0 to 2147483647"


def test_place_is_named_when_a_number_in_a_body_is_wrong() -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert([{"n": "x"}], list[dict[str, NumberText]])
    assert reason_of(refused.value) == "Expected a number from 0 to 2147483647 - at `$[0][...]`"
