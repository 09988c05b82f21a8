"""Where Apicurio answers otherwise than Confluent's registry does, and we keep to Confluent's.

Each row says for which calls, and why. `ends` says that the two servers know different things from there on, so that
the rest of the history tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.interop.registry.histories import Call
from tests.interop.registry.servers import Answer


class Difference(NamedTuple):
    reason: str
    applies: Callable[[Call, Answer, Answer], bool]
    ends: bool = False


def _codes(kind: str, ours: int, *theirs: int) -> Callable[[Call, Answer, Answer], bool]:
    """Answers to calls whose kind begins so; 0 is the code of what is no error."""
    return lambda call, our, their: call.kind.startswith(kind) and our.code == ours and their.code in theirs


def _is_protobuf(call: Call) -> bool:
    return call.body is not None and call.body.get("schemaType") == "PROTOBUF"


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "the status is the first three digits of the code; Apicurio has 409 with codes of 404",
        lambda _, ours, theirs: ours.code == theirs.code != 0,
    ),
    Difference(
        "what is no version is 42202, whatever else is wrong; Apicurio looks for it",
        lambda _, ours, theirs: ours.code == 42202 and theirs.code in (40401, 40402),
    ),
    Difference(
        "what is no schema is 42201 before anything is looked for",
        lambda _, ours, theirs: ours.code == 42201 and theirs.code in (40401, 40402, 40403),
    ),
    Difference(
        "any schema is compatible with a subject that has no live version",
        lambda call, ours, theirs: call.kind == "check" and ours.body is True and theirs.code in (40401, 40402),
    ),
    Difference(
        "a subject whose versions are all deleted is not found: 40401, where Apicurio misses the schema",
        _codes("look up", 40401, 40403),
    ),
    Difference(
        "Protobuf: a field may be removed, as its number says what it was; Apicurio wants it reserved",
        lambda call, ours, theirs: call.kind == "register" and _is_protobuf(call) and theirs.code == 409,
        ends=True,
    ),
    Difference(
        "the same, when the answer is asked for",
        lambda call, ours, theirs: _is_protobuf(call) and ours.body is True and theirs.body is False,
    ),
    Difference(
        "the latest version, when a deleted one is to be removed, may be a deleted one",
        lambda call, ours, theirs: "latest?perm" in call.path or "-1?perm" in call.path,
        ends=True,
    ),
    Difference(
        "a subject's deletion tells the versions that it deleted, not those that were deleted before",
        lambda call, ours, theirs: call.kind == "delete subject" and not ours.is_error and not theirs.is_error,
    ),
    Difference(
        "a deleted schema that is registered again takes the place of its old version, which is removed",
        lambda call, ours, theirs: call.kind.startswith("version") and "deleted=true" in call.path,
        ends=True,
    ),
    Difference(
        "a schema that was removed for good and is registered again has a new id",
        lambda call, ours, theirs: call.kind == "register" and ours.code == theirs.code == 0,
        ends=True,
    ),
    Difference(
        "a deleted version is nothing to compare with",
        lambda call, ours, theirs: call.kind == "check" and ours.code == 40402 and not theirs.is_error,
    ),
    Difference(
        "a deleted version is not found",
        lambda call, ours, theirs: call.kind == "referrers" and ours.code in (40401, 40402),
    ),
)


def justification(call: Call, ours: Answer, theirs: Answer) -> Difference | None:
    return next((each for each in DIFFERENCES if each.applies(call, ours, theirs)), None)
