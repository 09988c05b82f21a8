"""What all commands about security have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.app import command

GROUPS = ("certificates", "users", "acls", "policies", "quotas", "tokens", "audit")


def leaves(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(group, "list_commands"):
        yield " ".join(path), group
        return
    context = typer.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield from leaves(found, *path, name)


def all_commands() -> list[tuple[str, Any]]:
    root = command()
    context = typer.Context(root)
    return [each for name in GROUPS for each in leaves(root.get_command(context, name) or root, name)]


@pytest.mark.parametrize(("name", "found"), all_commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_command_has_json_for_programs(name: str, found: Any) -> None:
    options = {option for parameter in found.params for option in parameter.opts}
    assert "--json" in options, name


def test_password_is_not_shown_when_a_cluster_is_printed() -> None:
    assert "geheim" not in repr(ClusterClient("localhost:9092", {"sasl.password": "geheim"}))
