"""Numbers in bodies, which Confluent's proxy accepts as texts, too."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from msgspec import Meta, ValidationError

_INT32 = (
    r"^([0-9]{1,9}|1[0-9]{9}|20[0-9]{8}|21[0-3][0-9]{7}|214[0-6][0-9]{6}|2147[0-3][0-9]{5}"
    r"|21474[0-7][0-9]{4}|214748[0-2][0-9]{3}|2147483[0-5][0-9]{2}|21474836[0-3][0-9]|214748364[0-7])\Z"
)
# Every text of this form is a number of 32 bits, so nothing else has to be checked.
NumberText: TypeAlias = Annotated[str, Meta(pattern=_INT32)]
_QUOTED_PATTERN = re.compile(r"Expected `str` matching regex '.*'(?= - at |\Z)")


def reason_of(error: ValidationError) -> str:
    """The error in a body, without the pattern of `NumberText`, which msgspec quotes."""
    return _QUOTED_PATTERN.sub("Expected a number from 0 to 2147483647", str(error))


def number_of(given: int | str | None) -> int | None:
    return int(given) if isinstance(given, str) else given
