from __future__ import annotations

from penstock.security.quotas.entities import parse_entity_path, stored_quotas
from penstock.security.quotas.levels import MAX_COUNTED_CLIENT_ID, QuotaLevels

KEY = "producer_byte_rate"


def levels(*paths: str) -> QuotaLevels:
    return QuotaLevels(stored_quotas({path: {KEY: str(number)} for number, path in enumerate(paths, 1)}), KEY)


class TestLevels:
    def test_users_share_nothing_and_clients_of_a_user_share_its_quota(self) -> None:
        found = levels("users/<default>")
        alice, same, bob = found.find("alice", "a"), found.find("alice", "b"), found.find("bob", "a")
        assert alice is not None
        assert same is not None
        assert bob is not None
        assert alice.counted_for == same.counted_for != bob.counted_for

    def test_each_client_id_is_counted_by_itself_when_the_default_bounds_it(self) -> None:
        found = levels("clients/<default>")
        one, other = found.find("alice", "a"), found.find("alice", "b")
        assert one is not None
        assert other is not None
        assert one.counted_for != other.counted_for
        assert found.find("bob", "a") == one

    def test_client_without_an_id_has_the_default_and_no_other(self) -> None:
        for client_id in (None, ""):
            assert levels("clients/app").find("alice", client_id) is None
            bound = levels("clients/<default>").find("alice", client_id)
            assert bound is not None

    def test_long_client_ids_are_counted_together_when_they_begin_alike(self) -> None:
        found = levels("clients/<default>")
        long = "x" * MAX_COUNTED_CLIENT_ID
        one, other = found.find("u", long + "1"), found.find("u", long + "2" * 30_000)
        assert one is not None
        assert other is not None
        assert one.counted_for == other.counted_for

    def test_credentials_are_no_quota(self) -> None:
        assert not list(stored_quotas({"users/alice": {"SCRAM-SHA-256": "salt=..."}}))

    def test_name_is_unquoted_and_the_default_is_told_from_a_client_of_that_name(self) -> None:
        assert parse_entity_path("users/a%2Fb/clients/%3Cdefault%3E") == {"client-id": "<default>", "user": "a/b"}
        assert parse_entity_path("clients/<default>") == {"client-id": None}
        assert parse_entity_path("brokers/1") is None
        assert parse_entity_path("users/a/groups/b") is None
