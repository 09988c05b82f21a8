"""The file of rights, read again."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from penstock.core.config.types import ConfigError
from penstock.registry.api.access import Access, Caller
from penstock.registry.api.rights import Right
from penstock.registry.api.rights_file import RightsFile

ALICE = Caller("User:alice", "127.0.0.1")


def rules(*subjects: str) -> str:
    rule = {"principal": "User:alice", "permission": "allow", "operations": ["READ"]}
    return json.dumps({"rules": [{**rule, "subject": subject} for subject in subjects]})


def readable(access: Access) -> set[str]:
    return {subject for subject in ("orders", "payments") if access.may(ALICE, Right.READ, subject)}


def test_new_rules_count_as_soon_as_the_file_was_looked_at(tmp_path: Path) -> None:
    path, access = tmp_path / "rights.json", Access()
    path.write_text(rules("orders"))
    file = RightsFile(path, access)
    file.read()
    assert readable(access) == {"orders"}
    path.write_text(rules("orders", "payments"))
    asyncio.run(file.look())
    assert readable(access) == {"orders", "payments"}


@pytest.mark.parametrize("broken", ['{"rules": [', '{"rules": [{"principal": "alice"}]}', None])
def test_the_old_rules_stay_when_the_file_is_broken_or_gone(
    tmp_path: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path, access = tmp_path / "rights.json", Access()
    path.write_text(rules("orders"))
    file = RightsFile(path, access)
    file.read()
    if broken is None:
        path.unlink()
    else:
        path.write_text(broken)
    asyncio.run(file.look())
    asyncio.run(file.look())  # said once, not at every look
    assert readable(access) == {"orders"}
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    path.write_text(rules("payments"))
    asyncio.run(file.look())
    assert readable(access) == {"payments"}


def test_a_file_that_is_broken_at_the_start_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rights.json"
    path.write_text("[")
    with pytest.raises(ConfigError, match=r"rights\.json"):
        RightsFile(path, Access()).read()
