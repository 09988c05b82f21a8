"""One text where names are wanted: Python takes it for a list of letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.admin import AsyncAdmin, ConfigPlace
from tests.unit.admin.scripted import ScriptedBrokers

Operation = Callable[[AsyncAdmin], Coroutine[Any, Any, Any]]

OPERATIONS: dict[str, Operation] = {
    "topics": lambda admin: admin.topics("abc"),
    "groups": lambda admin: admin.groups("abc"),
    "configs": lambda admin: admin.configs([ConfigPlace.topic("t")], "abc"),
    "read": lambda admin: admin.read(config_keys="abc"),
    "delete_topics": lambda admin: admin.delete_topics("abc"),
    "delete_groups": lambda admin: admin.delete_groups("abc"),
    "users": lambda admin: admin.security.users("abc"),
    "tokens": lambda admin: admin.security.tokens("abc"),
    "create_token": lambda admin: admin.security.create_token(renewers="abc"),
    "find": lambda admin: admin.transactions.find(states="abc"),
    "describe": lambda admin: admin.transactions.describe("abc"),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_nothing_is_asked_or_changed_when_names_are_one_text(operation: Operation) -> None:
    brokers = ScriptedBrokers({})
    with pytest.raises(TypeError, match="a list of names is wanted"):
        asyncio.run(operation(brokers.admin))
    assert brokers.ways == []
