"""The users that a new cluster begins with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cluster.metadata import Metadata
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore
from tests.unit.cluster.harness import choices, config, run

ADMIN = {"SCRAM-SHA-256": "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"}


def founded(path: Path, store: MemoryStore) -> SecurityImage:
    broker = config(penstock_first_users_file=str(path))
    return run(Metadata.load(store, broker, choices=choices())).image.security


def test_users_are_there_when_a_cluster_is_founded_and_not_made_again_later(tmp_path: Path) -> None:
    path, store = tmp_path / "users.json", MemoryStore()
    path.write_text(json.dumps({"admin": ADMIN}))
    assert founded(path, store).entity_configs == {"users/admin": ADMIN}
    path.write_text(json.dumps({"eve": ADMIN}))
    assert founded(path, store).entity_configs == {"users/admin": ADMIN}


@pytest.mark.parametrize(
    "text", ["", "[]", "1", '{"admin": "secret"}', '{"admin": {}}', '{"admin": {"a": 1}}', "x" * 2_000_000]
)
def test_file_is_refused_without_showing_it_when_it_holds_no_users(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"penstock\.first\.users\.file: expected JSON") as refused:
        founded(path, MemoryStore())
    assert "secret" not in str(refused.value)


def test_missing_file_is_named_when_a_cluster_is_to_be_founded(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"users\.json: penstock\.first\.users\.file: No such file"):
        founded(tmp_path / "users.json", MemoryStore())
