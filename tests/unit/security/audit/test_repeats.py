from __future__ import annotations

from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.security.audit.logins import SASL, login_refused
from penstock.security.audit.repeats import MOST_CLAIMED, OTHERS, Merging


def denial(resource: str = "Topic:orders") -> AuditEvent:
    return AuditEvent(AuditKind.DENIAL, "Produce", is_allowed=False, principal="User:eve", resource=resource)


def read(size: int, principal: str = "User:alice") -> AuditEvent:
    return AuditEvent(
        AuditKind.READ, "Fetch", is_allowed=True, principal=principal, resource="Topic:orders", details={"bytes": size}
    )


def test_first_denial_is_told_at_once_and_repeats_as_one_when_the_minute_ends() -> None:
    merging = Merging()
    assert merging.add(denial(), 1_000) == denial()
    assert [merging.add(denial(), 1_000 + step) for step in range(1, 1_000)] == [None] * 999
    (told,) = merging.take_all()
    assert told.details == {"count": 999, "first_ms": 1_001, "last_ms": 1_999}
    assert not [*merging.take_all()]


def test_nothing_more_is_told_when_a_denial_was_not_repeated() -> None:
    merging = Merging()
    merging.add(denial(), 0)
    assert not [*merging.take_all()]


def test_bytes_are_summed_per_principal_when_reads_are_merged() -> None:
    merging = Merging()
    for event in (read(10), read(20), read(5, "User:bob")):
        assert merging.add(event, 0) is None
    assert [(each.principal, each.details["bytes"], each.details["count"]) for each in merging.take_all()] == [
        ("User:alice", 30, 2),
        ("User:bob", 5, 1),
    ]


def test_change_is_never_merged() -> None:
    change = AuditEvent(AuditKind.CHANGE, "CreateTopics", is_allowed=True)
    merging = Merging()
    assert [merging.add(change, 0), merging.add(change, 0)] == [change, change]
    assert not len(merging)


def test_minute_ends_early_when_clients_invent_names() -> None:
    merging = Merging(most_different=3)
    for name in "abc":
        assert not merging.is_full
        merging.add(denial(f"Topic:{name}"), 0)
    assert merging.is_full


def refused(claimed: str, address: str = "10.0.0.1") -> AuditEvent:
    return login_refused(SASL, "PLAIN", address, "wrong user or password", claimed=claimed)


def test_refused_logins_are_merged_by_the_name_that_was_claimed() -> None:
    merging = Merging()
    assert merging.add(refused("alice"), 0) == refused("alice")
    assert merging.add(refused("alice"), 1) is None
    assert merging.add(refused("bob"), 2) == refused("bob")
    assert [(each.details["claimed"], each.details["count"]) for each in merging.take_all()] == [("alice", 1)]


def test_names_are_told_as_one_when_an_address_claims_endless_ones() -> None:
    merging = Merging()
    told = [merging.add(refused(f"name{number}"), number) for number in range(1_000)]
    names = [event.details["claimed"] for event in told if event is not None]
    assert names == [*(f"name{number}" for number in range(MOST_CLAIMED)), OTHERS]
    assert len(merging) == MOST_CLAIMED + 1
    assert merging.add(refused("alice", "10.0.0.2"), 0) == refused("alice", "10.0.0.2"), (
        "other addresses have their own"
    )
    (others,) = merging.take_all()
    assert (others.details["claimed"], others.details["count"]) == (OTHERS, 1_000 - MOST_CLAIMED - 1)
    assert merging.add(refused("name999"), 0) == refused("name999"), "the next minute begins anew"
