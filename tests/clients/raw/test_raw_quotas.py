"""DescribeClientQuotas and DescribeUserScramCredentials where nobody has set either."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.clients.raw.wire import Wire, error_of, errors_of

EXACT, DEFAULT, SPECIFIED = range(3)
INVALID = ErrorCode.INVALID_REQUEST

Component = tuple[str, int, str | None]


def describe_quotas(wire: Wire, components: list[Component], version: int = 1, strict: bool = False) -> Any:
    rows = [
        ComponentData(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in components
    ]
    return wire(DescribeClientQuotasRequest(components=rows, strict=strict), version)


class TestQuotas:
    @pytest.mark.parametrize("version", range(2))
    @pytest.mark.parametrize("strict", [True, False])
    @pytest.mark.parametrize(
        "components",
        [
            [],
            [("user", EXACT, "alice")],
            [("user", DEFAULT, None)],
            [("user", SPECIFIED, None), ("client-id", SPECIFIED, None)],
            [("ip", EXACT, "not an address")],
        ],
    )
    def test_no_quota_is_found_when_the_filter_is_right(
        self, wire: Wire, components: list[Component], strict: bool, version: int
    ) -> None:
        answer = describe_quotas(wire, components, version, strict)
        assert (error_of(answer), answer.entries) == (ErrorCode.NONE, [])

    @pytest.mark.parametrize("version", range(2))
    @pytest.mark.parametrize(
        ("components", "code", "text"),
        [
            ([("", EXACT, "a")], INVALID, "Invalid empty entity type."),
            ([("user", EXACT, "a"), ("user", DEFAULT, None)], INVALID, "cannot appear more than once in the filter."),
            ([("planet", SPECIFIED, None)], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type planet"),
            ([("user", EXACT, None)], INVALID, "MATCH_TYPE_EXACT, but set match string to null."),
            ([("user", DEFAULT, "a")], INVALID, "MATCH_TYPE_DEFAULT, but also specified a match string."),
            ([("user", SPECIFIED, "a")], INVALID, "MATCH_TYPE_SPECIFIED, but also specified a match string."),
            ([("user", 9, None)], INVALID, "Unknown match type 9"),
            ([("ip", SPECIFIED, None), ("user", SPECIFIED, None)], INVALID, "Invalid entity filter component"),
        ],
    )
    def test_filter_is_refused_when_it_makes_no_sense(
        self, wire: Wire, components: list[Component], code: ErrorCode, text: str, version: int
    ) -> None:
        answer = describe_quotas(wire, components, version)
        assert (error_of(answer), answer.entries) == (code, None)
        assert text in answer.error_message


class TestScramCredentials:
    @pytest.mark.parametrize("users", [None, []])
    def test_no_user_is_listed_when_all_are_asked_for(self, wire: Wire, users: list[UserName] | None) -> None:
        answer = wire(DescribeUserScramCredentialsRequest(users=users))
        assert (error_of(answer), answer.results) == (ErrorCode.NONE, [])

    def test_user_is_not_found_when_named_and_a_duplicate_when_named_twice(self, wire: Wire) -> None:
        users = [UserName(name=name) for name in ("alice", "bob", "alice", "")]
        answer = wire(DescribeUserScramCredentialsRequest(users=users))
        assert error_of(answer) is ErrorCode.NONE
        results = {result.user: result for result in answer.results}
        assert sorted(results) == ["", "alice", "bob"]
        unknown, duplicate = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE
        assert errors_of(results[name] for name in ("", "alice", "bob")) == [unknown, duplicate, unknown]
        assert results["bob"].error_message == "Attempt to describe a user credential that does not exist: bob"
