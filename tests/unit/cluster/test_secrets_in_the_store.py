"""What whoever can list the store's nodes learns (CVE-2023-44981, CVE-2024-23944): names, and no secret."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from penstock.cluster.security_image import SecurityImage, user_key
from penstock.cluster.store import security_nodes
from penstock.security.tokens.tokens import token_hmac

SECRETS = ("c2FsdA", "c3RvcmVk", "c2VydmVy")
CREDENTIAL = f"salt={SECRETS[0]}==,stored_key={SECRETS[1]},server_key={SECRETS[2]},iterations=4096"
# The first versions without the holes.
OLDEST = (3, 9, 2)


def test_no_secret_is_in_a_path_when_users_and_tokens_are_stored() -> None:
    hmac = token_hmac(b"the brokers' own", "token-1")
    image = SecurityImage(
        entity_configs={user_key("alice"): {"SCRAM-SHA-256": CREDENTIAL}},
        tokens={"token-1": {"owner": "User:alice", "expiryTimestamp": "1"}},
    )
    nodes = security_nodes.nodes_of(image)
    assert any("alice" in path for path in nodes)
    paths, values = " ".join(nodes), b" ".join(nodes.values())
    assert not any(secret in paths for secret in (*SECRETS, hmac.hex()))
    assert hmac not in values, "a token's HMAC is computed from the brokers' secret, and stored nowhere"


def test_zookeeper_that_we_start_is_none_of_those_with_holes() -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("ZooKeeper comes with Spark, which is not here")
    jars = [jar.name for jar in (Path(found.origin).parent / "jars").glob("zookeeper-[0-9]*.jar")]
    versions = [re.fullmatch(r"zookeeper-(\d+)\.(\d+)\.(\d+)\.jar", name) for name in jars]
    assert versions
    assert all(version is not None and tuple(map(int, version.groups())) >= OLDEST for version in versions), jars
