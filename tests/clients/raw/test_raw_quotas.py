"""DescribeClientQuotas, AlterClientQuotas, and DescribeUserScramCredentials where nobody has set any."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.clients.raw.wire import Wire, error_of, errors_of, new_name

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


Entity = dict[str, str | None]
Values = dict[str, float | None]  # None removes
RATE, FETCH_RATE, PERCENT, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
)


def entry_of(entity: Entity, values: Values) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


def alter_quotas(
    wire: Wire, *entries: AlterClientQuotasRequestEntryData, version: int = 1, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    answer = wire(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), version)
    return [(ErrorCode(each.error_code), each.error_message) for each in answer.entries]


def found_quotas(wire: Wire, components: list[Component], *, strict: bool = False) -> list[tuple[Entity, Values]]:
    answer = describe_quotas(wire, components, strict=strict)
    assert error_of(answer) is ErrorCode.NONE
    return [
        ({one.entity_type: one.entity_name for one in each.entity}, {one.key: one.value for one in each.values})
        for each in answer.entries
    ]


OK = (ErrorCode.NONE, None)


class TestAlteredQuotas:
    @pytest.mark.parametrize("version", range(2))
    def test_quota_is_found_when_it_was_set_and_gone_when_it_was_removed(self, wire: Wire, version: int) -> None:
        user, client = new_name("user/~"), new_name("client")
        both: Entity = {"user": user, "client-id": client}
        change = entry_of(both, {RATE: 1e12, PERCENT: 200.5})
        assert alter_quotas(wire, change, version=version, validate_only=True) == [OK]
        assert found_quotas(wire, [("user", EXACT, user)]) == []
        assert alter_quotas(wire, change, version=version) == [OK]
        expected = (both, {RATE: 1e12, PERCENT: 200.5})
        assert found_quotas(wire, [("user", EXACT, user)]) == [expected]
        assert found_quotas(wire, [("user", EXACT, user), ("client-id", SPECIFIED, None)], strict=True) == [expected]
        assert found_quotas(wire, [("user", EXACT, user)], strict=True) == []
        assert found_quotas(wire, [("user", EXACT, user), ("client-id", DEFAULT, None)]) == []
        assert alter_quotas(wire, entry_of(both, {RATE: None, FETCH_RATE: None}), version=version) == [OK]
        assert found_quotas(wire, [("client-id", EXACT, client)]) == [(both, {PERCENT: 200.5})]
        assert alter_quotas(wire, entry_of(both, {PERCENT: None}), version=version) == [OK]
        assert found_quotas(wire, [("user", EXACT, user)]) == []

    def test_default_is_an_entity_of_its_own(self, wire: Wire) -> None:
        user = new_name("user")
        entity: Entity = {"user": user, "client-id": None}
        assert alter_quotas(wire, entry_of(entity, {RATE: 1e12})) == [OK]
        try:
            assert found_quotas(wire, [("client-id", DEFAULT, None), ("user", EXACT, user)]) == [(entity, {RATE: 1e12})]
            assert found_quotas(wire, [("client-id", EXACT, "<default>")]) == []
        finally:
            assert alter_quotas(wire, entry_of(entity, {RATE: None})) == [OK]

    def test_address_has_a_quota_of_connections(self, wire: Wire) -> None:
        entity: Entity = {"ip": "192.0.2.77"}
        assert alter_quotas(wire, entry_of(entity, {CONNECTIONS: 1_000_000})) == [OK]
        try:
            assert found_quotas(wire, [("ip", EXACT, "192.0.2.77")]) == [(entity, {CONNECTIONS: 1_000_000})]
        finally:
            assert alter_quotas(wire, entry_of(entity, {CONNECTIONS: None})) == [OK]

    @pytest.mark.parametrize(
        ("entity", "values", "text"),
        [
            ({}, {RATE: 1}, "Invalid empty client quota entity"),
            ({"planet": "mars"}, {RATE: 1}, "Unhandled client quota entity type: planet"),
            ({"user": ""}, {RATE: 1}, "Empty user not supported"),
            ({"user": "a"}, {"speed": 1}, "Invalid configuration key speed"),
            ({"user": "a"}, {CONNECTIONS: 1}, f"Invalid configuration key {CONNECTIONS}"),
            ({"ip": "192.0.2.1"}, {RATE: 1}, f"Invalid configuration key {RATE}"),
            ({"user": "a"}, {RATE: -1}, f"Quota {RATE} must be greater than 0"),
            ({"user": "a"}, {RATE: 1.5}, f"{RATE} cannot be a fractional value."),
            ({"user": "a"}, {RATE: 1e19}, f"Proposed value for {RATE} is too large for a LONG."),
            ({"ip": "192.0.2.1"}, {CONNECTIONS: 1e10}, f"Proposed value for {CONNECTIONS} is too large for an INT."),
            (
                {"user": "a", "ip": "192.0.2.1"},
                {RATE: 1},
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            ),
            ({"ip": "no.such.host.invalid"}, {CONNECTIONS: 1}, "is not a valid IP or resolvable host."),
        ],
    )
    def test_change_is_refused_when_it_makes_no_sense(
        self, wire: Wire, entity: Entity, values: Values, text: str
    ) -> None:
        ((code, message),) = alter_quotas(wire, entry_of(entity, values))
        assert code is INVALID
        assert text in (message or "")

    def test_only_the_entity_with_a_mistake_is_refused(self, wire: Wire) -> None:
        user = new_name("user")
        good, bad = entry_of({"user": user}, {RATE: 1e12}), entry_of({"user": new_name()}, {RATE: 0.5, PERCENT: 10})
        codes = sorted(code for code, _ in alter_quotas(wire, good, bad))
        assert codes == [ErrorCode.NONE, INVALID]
        assert found_quotas(wire, [("user", EXACT, user)]) == [({"user": user}, {RATE: 1e12})]
        assert alter_quotas(wire, entry_of({"user": user}, {RATE: None})) == [OK]

    def test_key_named_twice_is_refused(self, wire: Wire) -> None:
        user = new_name("user")
        entry = entry_of({"user": user}, {RATE: 5})
        entry.ops += entry.ops
        assert alter_quotas(wire, entry) == [
            (INVALID, f"Ignoring duplicate entity ClientQuotaEntity(entries={{user={user}}})")
        ]


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
