"""The parts of the rows of security that need no broker."""

from __future__ import annotations

import ssl

import pytest

from bench.acls import make_acls
from bench.secured.brokers import USER
from bench.secured.rights import PREFIX
from bench.secured.rows import SECURED_ROWS
from bench.secured.sender import MOST_BEHIND_S, Pace, first_message
from penstock.security.acls.types import PatternType, ResourcePattern, ResourceType


def test_rows_have_keys_of_their_own_when_shown_together() -> None:
    keys = [row.key for row in SECURED_ROWS]
    assert len(set(keys)) == len(keys)


def test_sender_rests_when_it_has_used_more_than_its_share() -> None:
    pace = Pace(share=0.25)
    assert pace.pause_s(used_s=0.001, passed_s=0.001) == pytest.approx(0.003)
    assert pace.pause_s(used_s=0.001, passed_s=0.004) == 0


def test_sender_does_not_make_up_for_a_long_wait_when_it_goes_on() -> None:
    pace = Pace(share=0.25)
    assert pace.pause_s(used_s=0.0, passed_s=10.0) == 0
    assert pace.pause_s(used_s=0.01, passed_s=10.0) == pytest.approx(0.04 - MOST_BEHIND_S)


def test_first_message_is_a_handshake_record_when_it_is_made_once() -> None:
    assert first_message(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))[:2] == b"\x16\x03"


def test_names_are_allowed_by_a_prefix_when_the_user_asks_for_new_ones() -> None:
    entries = make_acls()[ResourcePattern(ResourceType.TOPIC, PREFIX, PatternType.PREFIXED)]
    assert [entry.principal for entry in entries] == [f"User:{USER}"]
