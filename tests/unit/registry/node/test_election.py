"""Who leads among instances of the registry: a pure choice, in the words of Confluent's instances."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.registry.node.election import (
    DUPLICATE_URLS,
    NO_ERROR,
    Assignment,
    Identity,
    UnreadableError,
    decide_leader,
)

A = Identity("a", 8081)
B = Identity("b", 8081)
C = Identity("c", 8081)


def members(**identities: Identity) -> dict[str, bytes]:
    return {member_id: identity.encode() for member_id, identity in identities.items()}


def test_the_smallest_url_leads_when_nobody_did() -> None:
    assert decide_leader(members(m1=C, m2=A, m3=B)) == Assignment(NO_ERROR, "m2", A)


def test_the_leader_stays_when_an_instance_with_a_smaller_url_joins() -> None:
    assert decide_leader(members(m1=B.claiming(True), m2=A)).leader_id == "m1"


def test_an_instance_that_may_not_lead_is_never_chosen() -> None:
    follower = Identity("a", 8081, is_eligible=False)
    assert decide_leader(members(m1=follower, m2=B)).leader_id == "m2"
    assert decide_leader(members(m1=follower)) == Assignment(NO_ERROR)


def test_equal_urls_are_an_error_and_the_leader_stays() -> None:
    decided = decide_leader(members(m1=A, m2=A.claiming(True)))
    assert (decided.error, decided.leader_id) == (DUPLICATE_URLS, "m2")


def test_two_that_both_say_they_lead_are_decided_by_their_urls() -> None:
    assert decide_leader(members(m1=B.claiming(True), m2=A.claiming(True), m3=C)).leader_id == "m2"


def test_a_member_that_nobody_understands_is_left_out() -> None:
    assert decide_leader({"m1": b"\xff", "m2": b"[]", "m3": b'{"host":"0"}', "m4": B.encode()}).leader_id == "m4"


def test_what_confluent_s_instances_say_is_understood() -> None:
    theirs = b'{"version":1,"host":"sr-1","port":8081,"master_eligibility":true,"scheme":"https"}'
    assert Identity.decode(theirs) == Identity("sr-1", 8081, is_eligible=True, scheme="https")
    assert Identity("sr-1", 8081, scheme="https").encode() == theirs


def test_what_is_assigned_has_the_fields_that_confluent_s_instances_read() -> None:
    assert json.loads(Assignment(NO_ERROR, "m1", A).encode()) == {
        "version": 1,
        "error": 0,
        "master": "m1",
        "master_identity": {"version": 1, "host": "a", "port": 8081, "master_eligibility": True, "scheme": "http"},
    }
    theirs = b'{"version":1,"error":0,"master":"m1","master_identity":' + A.encode() + b',"other":1}'
    assert Assignment.decode(theirs) == Assignment(NO_ERROR, "m1", A)


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"error":"0"}', b"[" * 100_000])
def test_an_assignment_that_makes_no_sense_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        Assignment.decode(data)


identities = st.builds(
    Identity,
    host=st.sampled_from("abcd"),
    port=st.integers(1, 3),
    is_eligible=st.booleans(),
    scheme=st.sampled_from(["http", "https"]),
    is_leader=st.booleans(),
)
groups = st.dictionaries(st.text("mn", min_size=1, max_size=4), identities, max_size=6)


@given(groups)
def test_the_chosen_one_is_a_member_that_may_lead(group: dict[str, Identity]) -> None:
    decided = decide_leader(members(**group))
    if decided.leader_id is None:
        assert not any(identity.is_eligible for identity in group.values())
    else:
        assert group[decided.leader_id].is_eligible
        assert decided.leader == group[decided.leader_id].claiming(False)
    assert Assignment.decode(decided.encode()) == decided


@given(groups, identities, st.text("xy", min_size=1))
def test_a_join_never_moves_the_leader(group: dict[str, Identity], newcomer: Identity, name: str) -> None:
    first = decide_leader(members(**group))
    if first.leader_id is None:
        return
    claimed = {each: identity.claiming(each == first.leader_id) for each, identity in group.items()}
    joined = {**claimed, name: newcomer.claiming(False)}
    assert decide_leader(members(**joined)).leader_id == first.leader_id
