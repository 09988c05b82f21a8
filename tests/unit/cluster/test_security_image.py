"""Keys of entities, the nodes that security is kept in, and changes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.image_loader import load_image
from penstock.cluster.levels import FIRST_LEVEL, SUPPORTED, LevelRange
from penstock.cluster.security_image import SecurityImage, client_key, ip_key, user_key, with_value
from penstock.cluster.store import security_nodes
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from penstock.security.quotas.entities import parse_entity_path
from tests.unit.cluster.brokers import TestBroker
from tests.unit.cluster.harness import run
from tests.unit.cluster.images import securities

NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(NAMES, NAMES)
def test_names_come_back_when_a_key_is_parsed(user: str | None, client: str | None) -> None:
    assert parse_entity_path(user_key(user)) == {"user": user}
    assert parse_entity_path(client_key(client)) == {"client-id": client}
    assert parse_entity_path(client_key(client, of_user=user)) == {"user": user, "client-id": client}


def test_keys_are_those_of_kafka() -> None:
    assert user_key("CN=a b*~,O=x") == "users/CN%3Da%20b%2A%7E%2CO%3Dx"
    assert client_key(None, of_user=None) == "users/<default>/clients/<default>"
    assert ip_key("10.0.0.1") == "ips/10.0.0.1"


@given(securities())
def test_nodes_hold_the_whole_image(security: SecurityImage) -> None:
    nodes = security_nodes.nodes_of(security)
    assert security_nodes.decode_nodes(nodes) == security
    assert set(nodes) == security_nodes.paths_of(security)
    parents = {path.rpartition("/")[0] for path in nodes} & set(nodes)
    above = {path for path in parents if any(root.startswith(f"{path}/") for root in security_nodes.ROOTS)}
    assert all(security_nodes.may_have_children(path) for path in parents - above)


@given(securities(), securities())
def test_new_paths_are_those_of_values_that_came(old: SecurityImage, new: SecurityImage) -> None:
    added = set(security_nodes.added_paths(old, new))
    came = security_nodes.paths_of(new) - security_nodes.paths_of(old)
    # The others are shorter: they are there for their children, or had children before.
    assert security_nodes.with_parents(added) >= came
    assert added <= security_nodes.paths_of(new)
    assert security_nodes.added_paths(new, new) == []


def test_acls_are_kept_where_kafka_keeps_them() -> None:
    literal = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*")
    assert security_nodes.acl_path(literal) == "/kafka-acl/TransactionalId/*"
    prefixed = ResourcePattern(ResourceType.TOPIC, "or.", PatternType.PREFIXED)
    assert security_nodes.acl_path(prefixed) == "/kafka-acl-extended/prefixed/Topic/or."
    entry = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
    row = b'{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}'
    assert security_nodes.encode_acls([entry]) == b'{"version":1,"acls":[' + row + b"]}"


async def _set(key: str, levels: LevelRange = SUPPORTED) -> SecurityImage:
    """The security of the store after a user got a setting, and another lost it."""
    broker = await TestBroker(MemoryTree(), 1, levels=levels).start()

    def decide(present: SecurityImage) -> tuple[tuple[str, ...], SecurityImage]:
        return ("done",), present._replace(entity_configs=with_value(present.entity_configs, key, {"x": "1"}))

    def undo(present: SecurityImage) -> tuple[tuple[str, ...], SecurityImage]:
        return (), present._replace(entity_configs=with_value(present.entity_configs, "users/bob", {}))

    try:
        assert await broker.metadata.security.apply(decide) == ("done",)
        await broker.metadata.security.apply(undo)
        loaded = (await load_image(broker.store)).security
        assert loaded == broker.metadata.image.security
        return loaded
    finally:
        await broker.stop()


def test_security_is_refused_when_the_level_is_too_low() -> None:
    with pytest.raises(ApiError) as refused:
        run(_set("users/alice", LevelRange(FIRST_LEVEL, FIRST_LEVEL)))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert "penstock cluster upgrade" in refused.value.message


def test_security_is_refused_when_a_name_is_too_long_for_the_store() -> None:
    with pytest.raises(ApiError) as refused:
        run(_set(user_key("x" * 100_000)))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert len(refused.value.message) < 300


def test_security_is_in_the_store_when_it_was_changed() -> None:
    assert run(_set("users/alice")) == SecurityImage(entity_configs={"users/alice": {"x": "1"}})
