"""Log lines as the audit trail of a service."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from penstock.core.logs import JsonFormatter
from penstock.http.auditing import LoggedAudit
from penstock.security.audit.events import AuditEvent, AuditKind


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("penstock.audit")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield written
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_line_has_who_and_what_when_a_kind_is_kept(lines: io.StringIO) -> None:
    auditor = LoggedAudit(["change"], lambda: 0)
    auditor.record(
        AuditEvent(
            AuditKind.CHANGE,
            "RegisterSchema",
            is_allowed=True,
            principal="User:alice",
            resource="Subject:orders\nforged",
            details={"version": 3, "name": "x"},
        )
    )
    auditor.record(AuditEvent(AuditKind.DENIAL, "RegisterSchema", is_allowed=False))
    (text,) = lines.getvalue().splitlines()
    line = json.loads(text)
    assert (line["what"], line["principal"], line["detail_version"]) == ("RegisterSchema", "User:alice", 3)
    assert "address" not in line


def test_names_are_cut_when_a_client_sends_long_ones(lines: io.StringIO) -> None:
    event = AuditEvent(AuditKind.DENIAL, "x", is_allowed=False, resource="Subject:" + "s" * 1_000_000)
    LoggedAudit(["denial"], lambda: 0).record(event)
    assert len(lines.getvalue()) < 10_000


def test_refusals_are_limited_in_rate_and_changes_are_not(lines: io.StringIO) -> None:
    auditor = LoggedAudit(["denial", "change"], lambda: 0)
    for _ in range(100):
        auditor.record(AuditEvent(AuditKind.DENIAL, "refused", is_allowed=False))
        auditor.record(AuditEvent(AuditKind.CHANGE, "changed", is_allowed=True))
    told = [json.loads(line)["what"] for line in lines.getvalue().splitlines()]
    assert told.count("changed") == 100
    assert told.count("refused") < 50
