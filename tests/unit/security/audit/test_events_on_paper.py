"""How an audit event is written down, and what of it may be seen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.audit.cloud_events import NO_CHAIN, Numbered, bounded, decode, encode, flatten, source_of
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.security.audit.logins import SASL, login_refused, login_succeeded
from penstock.security.audit.redaction import HIDDEN, describe_settings, show_detail, show_setting
from penstock.security.audit.selection import Selection, count_by
from penstock.security.audit.trail_check import STARTED, Check

SOURCE = source_of("c1", 1)
MOMENT_MS = 1_700_000_000_123


def event(kind: AuditKind = AuditKind.CHANGE, what: str = "CreateTopics", **fields: object) -> AuditEvent:
    return AuditEvent(kind, what, **{"is_allowed": True, **fields})  # type: ignore[arg-type]


def written(*numbers: int, chain: str = NO_CHAIN) -> list[bytes]:
    lines = []
    for number in numbers:
        line, chain = encode(Numbered(number, MOMENT_MS, event()), SOURCE, chain)
        lines.append(line)
    return lines


def test_event_is_a_cloud_event_when_encoded() -> None:
    told = event(
        principal="User:alice", address="10.0.0.1", client_id="app", resource="Topic:orders", operation="Create"
    )
    line, _ = encode(Numbered(42, MOMENT_MS, told), SOURCE, NO_CHAIN)
    fields = json.loads(line)
    assert {name: fields[name] for name in ("specversion", "id", "source", "type", "subject", "time", "sequence")} == {
        "specversion": "1.0",
        "id": "1-42",
        "source": "penstock://c1/brokers/1",
        "type": "io.penstock.audit.change",
        "subject": "Topic:orders",
        "time": "2023-11-14T22:13:20.123Z",
        "sequence": "00000000000000000042",
    }
    assert fields["data"]["authenticationInfo"] == {"principal": "User:alice"}
    assert fields["data"]["authorizationInfo"]["granted"] is True


@given(st.text(), st.text(), st.none() | st.text(), st.dictionaries(st.text(), st.integers() | st.booleans()))
def test_event_is_one_line_and_comes_back_when_a_client_chose_its_words(
    principal: str, resource: str, client_id: str | None, details: dict[str, int]
) -> None:
    told = event(principal=principal[:900], resource=resource[:900], client_id=client_id, details=details)
    line, _ = encode(Numbered(1, MOMENT_MS, told), SOURCE, NO_CHAIN)
    assert b"\n" not in line
    kept = decode(line, NO_CHAIN)
    assert kept.is_intact
    if len(client_id or "") < 900 and len(details) < 100 and all(len(name) < 900 for name in details):
        assert kept.event == told


def test_long_names_are_cut_when_a_client_sends_them() -> None:
    told = event(client_id="x" * 30_000, resource="y" * 30_000, details={"z" * 30_000: "v" * 30_000})
    line, _ = encode(Numbered(1, MOMENT_MS, told), SOURCE, NO_CHAIN)
    assert len(line) < 10_000


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b'{"specversion":"1.0"}', b'{"specversion":"1.0","data":{}}', b"nonsense"]
)
def test_line_is_refused_when_it_is_no_event(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)


# ------------------------------------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.key.password", "s3cret"),
        ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", "s3cret"),
        ("penstock.zookeeper.sasl.password", "s3cret"),
        ("my.own.setting", "s3cret"),
        ("retention.ms", 'PlainLoginModule required username="a" password="s3cret";'),
        ("advertised.listeners", "https://admin:s3cret@host"),
        ("SCRAM-SHA-512", "salt=abc,stored_key=s3cret,server_key=x,iterations=4096"),
    ],
)
def test_value_of_a_setting_is_hidden_when_it_is_or_holds_a_secret(name: str, value: str) -> None:
    assert show_setting(name, value) == HIDDEN


def test_value_of_a_setting_is_shown_when_it_is_harmless() -> None:
    assert describe_settings([("retention.ms", "1000"), ("cleanup.policy", None)]) == {
        "retention.ms": "1000",
        "cleanup.policy": None,
    }


def test_detail_is_hidden_when_its_name_or_its_value_gives_a_secret_away() -> None:
    assert show_detail("password", "x") == HIDDEN
    assert show_detail("reason", "token: eyJhbGciOi.eyJzdWIi.x") == HIDDEN
    assert show_detail("acl", "Allow User:alice Read from *") == "Allow User:alice Read from *"


@pytest.mark.parametrize("part", ["pass", "-eyJ", "://a:", "token ", "salt'", "eyJ-", "password" + " " * 9])
def test_value_is_judged_soon_when_it_is_made_to_take_long(part: str) -> None:
    """A search that goes back for each part would take hours."""
    assert show_setting("retention.ms", part * 1_000_000) in (HIDDEN, part * 1_000_000)


@pytest.mark.parametrize("before", [0, 985, 990, 999])
def test_secret_is_hidden_when_it_lies_where_the_value_is_cut(before: int) -> None:
    value = "x" * before + " https://admin:s3cret-and-more@host"
    line, _ = encode(Numbered(1, 0, bounded(event(details={"reason": value}))), SOURCE, NO_CHAIN)
    assert b"s3cret" not in line


def test_event_that_waits_is_as_long_as_its_line_when_a_client_chose_its_names() -> None:
    long = replace(event(details={"n" * 5_000: "v" * 5_000_000, "bytes": 7}), client_id="c" * 32_767)
    waiting = bounded(long)
    assert len(waiting.client_id or "") < 1_100
    assert [len(name) + len(str(value)) < 2_200 for name, value in waiting.details.items()] == [True, True]
    assert encode(Numbered(1, 0, waiting), SOURCE, NO_CHAIN) == encode(Numbered(1, 0, long), SOURCE, NO_CHAIN)
    assert bounded(event()) == event()


def test_secret_is_not_in_the_line_when_an_event_carries_one() -> None:
    line, _ = encode(Numbered(1, 0, event(details={"sasl.jaas.config": "hunter2"})), SOURCE, NO_CHAIN)
    assert b"hunter2" not in line


# ------------------------------------------------------------------------------------------------- checking


def problems(lines: list[bytes]) -> list[tuple[str, int, int]]:
    check = Check()
    found = [finding for line in lines for finding in check.take_line(line)]
    return [(each.problem, each.first, each.last) for each in found]


def test_nothing_is_found_when_the_trail_is_whole() -> None:
    assert problems(written(7, 8, 9)) == []


def test_gap_is_found_when_events_were_dropped() -> None:
    assert problems(written(1, 2, 6)) == [("gap", 3, 5)]


def test_change_is_found_when_a_line_was_edited() -> None:
    lines = written(1, 2, 3)
    lines[1] = lines[1].replace(b"CreateTopics", b"DeleteTopics")
    assert problems(lines) == [("changed", 2, 2)]


def test_removal_is_found_when_a_line_was_taken_out() -> None:
    first, _, third = written(1, 2, 3)
    assert problems([first, third]) == [("gap", 2, 2), ("changed", 3, 3)]


def test_repetition_is_found_when_a_number_comes_twice() -> None:
    first, second = written(1, 2)
    assert ("repeated", 2, 2) in problems([first, second, second])


def test_unclean_end_is_found_when_the_next_life_begins_after_a_jump() -> None:
    lines = written(1, 2)
    start = event(AuditKind.TRAIL, STARTED, details={"clean": False})
    line, _ = encode(Numbered(10_003, MOMENT_MS, start), SOURCE, decode(lines[-1]).chain)
    assert problems([*lines, line]) == [("unclean", 3, 10_002)]


def test_garbage_is_found_when_a_line_is_no_event() -> None:
    assert problems([*written(1), b"garbage"]) == [("unreadable", 0, 0)]


# ------------------------------------------------------------------------------------------------- selecting


def test_failed_logins_are_counted_per_address_when_repeats_were_merged() -> None:
    logins = [
        event(AuditKind.LOGIN, "SaslAuthenticate", is_allowed=False, address="10.0.0.1"),
        event(AuditKind.LOGIN, "SaslAuthenticate", is_allowed=False, address="10.0.0.1", details={"count": 40}),
        event(AuditKind.LOGIN, "SaslAuthenticate", is_allowed=False, address="10.0.0.2"),
        event(AuditKind.LOGIN, "SaslAuthenticate", address="10.0.0.1"),
        event(),
    ]
    kept = [decode(encode(Numbered(number, 0, each), SOURCE, NO_CHAIN)[0]) for number, each in enumerate(logins, 1)]
    selection = Selection(kinds=frozenset({"login"}), only_refused=True)
    counts = count_by((each for each in kept if selection.wants(each)), ("address",))
    assert counts == [(("10.0.0.1",), 41), (("10.0.0.2",), 1)]


def test_event_is_selected_when_patterns_and_times_fit() -> None:
    told = event(resource="Topic:orders", principal="User:alice", operation="Create")
    kept = decode(encode(Numbered(1, MOMENT_MS, told), SOURCE, NO_CHAIN)[0])
    assert Selection(resource="Topic:ord*", principal="User:alice", operation="Cr*").wants(kept)
    assert not Selection(resource="Topic:ord").wants(kept)
    assert Selection(since_ms=MOMENT_MS, until_ms=MOMENT_MS + 1).wants(kept)
    assert not Selection(since_ms=MOMENT_MS + 1).wants(kept)
    assert not Selection(until_ms=MOMENT_MS).wants(kept)
    assert flatten(kept)["resource"] == "Topic:orders"


# ------------------------------------------------------------------------------------------------- logins


def test_login_is_told_with_its_mechanism_and_a_refusal_with_its_reason() -> None:
    succeeded = login_succeeded(SASL, "SCRAM-SHA-512", "User:alice", "10.0.0.1", is_again=True)
    assert (succeeded.is_allowed, succeeded.operation, succeeded.details) == (True, "SCRAM-SHA-512", {"again": True})
    refused = login_refused(SASL, "PLAIN", "10.0.0.1", "wrong password")
    assert (refused.is_allowed, refused.principal, refused.rule) == (False, "", "wrong password")
